//! What a list says of a session that only its events know.

use offshoot_session::{LogOffset, Seq};
use offshoot_store::{Persistence as _, Query, Status, Summary, Torn};

use crate::support::{BOTH, Home, TWO_CALLS, event, events, file_bytes, header};

#[test]
fn a_summary_says_what_only_the_events_know() {
    let whole = Summary {
        version: 4,
        events: LogOffset::new(16),
        turns: 1,
        title: None,
        last_activity: Some(132),
        cut: None,
        boundary: Some(Seq::new(15)),
        side: false,
        open_turn: None,
        torn: None,
        findings: Vec::new(),
    };
    let title = r#"{"type":"session/title","seq":16,"time":140,"data":{"title":" Two lists\n","messageSeqs":[3],"source":{"kind":"fallback"}}}"#;
    let titled = format!("{TWO_CALLS}{title}\n");
    let titled: Vec<_> = titled.lines().map(event).collect();
    let mark = |seq: u64, act: &str| {
        event(&format!(
            r#"{{"type":"user/message","seq":{seq},"time":150,"data":{{"id":"mark-{seq}","role":"user","content":[{{"type":"text","text":"Aside."}}],"source":{{"kind":"sidechat","act":"{act}"}}}},"surfaceOp":"append"}}"#
        ))
    };
    let side = [&events(16)[..], &[mark(16, "framing")]].concat();
    let promoted = [&side[..], &[mark(17, "promote")]].concat();
    for container in BOTH {
        let home = Home::new();
        let put = |id: &str, bytes: Vec<u8>| drop(home.put_log(id, container, bytes));
        put(
            "whole",
            file_bytes(container, &header("whole"), &[&events(16)]),
        );
        put(
            "titled",
            file_bytes(container, &header("titled"), &[&titled]),
        );
        put("side", file_bytes(container, &header("side"), &[&side]));
        put(
            "promoted",
            file_bytes(container, &header("promoted"), &[&promoted]),
        );
        put(
            "open",
            file_bytes(container, &header("open"), &[&events(9)]),
        );
        let mut torn = file_bytes(
            container,
            &header("torn"),
            &[&events(9), &events(16)[9..10]],
        );
        torn.truncate(torn.len() - 40);
        put("torn", torn);
        put("empty", file_bytes(container, &header("empty"), &[]));

        let store = home.store(container);
        let page = store.list_filled(&Query::default(), u64::MAX).unwrap().page;
        let of = |id: &str| {
            let row = page.rows.iter().find(|row| row.id.as_str() == id);
            (
                row.unwrap().summary().unwrap().clone(),
                row.unwrap().status(),
            )
        };
        assert_eq!(of("whole"), (whole.clone(), Status::Ok));
        let titled = Summary {
            events: LogOffset::new(17),
            title: Some("Two lists".into()),
            last_activity: Some(140),
            boundary: Some(Seq::new(16)),
            ..whole.clone()
        };
        assert_eq!(of("titled"), (titled, Status::Ok));
        let side = Summary {
            events: LogOffset::new(17),
            last_activity: Some(150),
            boundary: Some(Seq::new(16)),
            side: true,
            ..whole.clone()
        };
        assert_eq!(of("side"), (side.clone(), Status::Ok));
        let promoted = Summary {
            events: LogOffset::new(18),
            boundary: Some(Seq::new(17)),
            side: false,
            ..side
        };
        assert_eq!(of("promoted"), (promoted, Status::Ok));
        let open = Summary {
            events: LogOffset::new(9),
            last_activity: Some(112),
            boundary: None,
            open_turn: Some(1),
            ..whole.clone()
        };
        assert_eq!(of("open"), (open.clone(), Status::Open));
        let (torn, status) = of("torn");
        let (line, reason) = torn
            .torn
            .clone()
            .map(|torn| (torn.line, torn.reason))
            .unwrap();
        assert_eq!((line, status), (11, Status::Torn));
        let expected = Summary {
            torn: Some(Torn { line, reason }),
            ..open
        };
        assert_eq!(torn, expected);
        let empty = Summary {
            events: LogOffset::START,
            turns: 0,
            last_activity: None,
            boundary: None,
            ..whole.clone()
        };
        assert_eq!(of("empty"), (empty, Status::Ok));
    }
}
