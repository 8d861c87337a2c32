//! Which session is a side session: the last framing or promote message of its log decides.

use offshoot_session::{EventLog, Seq, SideMark, build_fork_seed};

use crate::support::{event, replay, seq};

/// A user's message with this source.
fn said(at: u64, source: &str) -> offshoot_session::Event {
    event(&format!(
        r#"{{"type":"user/message","seq":{at},"time":1,"data":{{"id":"m{at}","role":"user","content":[{{"type":"text","text":"t"}}],"source":{source}}},"surfaceOp":"append"}}"#
    ))
}

fn head() -> offshoot_session::Event {
    event(
        r#"{"type":"system/message","seq":0,"time":1,"data":{"turn":1,"step":1,"message":{"id":"p","role":"system","content":[{"type":"text","text":"t"}],"source":{"kind":"system-prompt"}}},"surfaceOp":"append"}"#,
    )
}

fn log(sources: &[&str]) -> EventLog {
    let said = (1..).zip(sources).map(|(at, source)| said(at, source));
    replay(std::iter::once(head()).chain(said))
}

const FRAMING: &str = r#"{"kind":"sidechat","act":"framing"}"#;
const PROMOTE: &str = r#"{"kind":"sidechat","act":"promote","kept":true}"#;
const HANDBACK: &str = r#"{"kind":"sidechat","act":"handback","handbackId":"h"}"#;

fn mark(sources: &[&str]) -> Option<(Seq, SideMark)> {
    log(sources).side_mark()
}

#[test]
fn the_last_framing_or_promotion_decides_and_a_handback_nothing() {
    assert_eq!(mark(&[]), None);
    assert_eq!(mark(&[HANDBACK]), None);
    assert_eq!(mark(&[FRAMING]), Some((seq(1), SideMark::Framing)));
    assert_eq!(
        mark(&[FRAMING, HANDBACK]),
        Some((seq(1), SideMark::Framing))
    );
    assert_eq!(
        mark(&[FRAMING, HANDBACK, PROMOTE]),
        Some((seq(3), SideMark::Promote))
    );
    assert_eq!(
        mark(&[FRAMING, PROMOTE, FRAMING]),
        Some((seq(3), SideMark::Framing))
    );
    assert!(log(&[FRAMING, HANDBACK]).is_side_session());
    assert!(!log(&[FRAMING, PROMOTE]).is_side_session());
}

#[test]
fn a_fork_inherits_the_mark_that_stands_before_its_cut() {
    let log = log(&[FRAMING, PROMOTE]);
    let marks = [0, 1, 2].map(|cut| build_fork_seed(&log, seq(cut)).unwrap().log().side_mark());
    let expected = [
        None,
        Some((seq(1), SideMark::Framing)),
        Some((seq(2), SideMark::Promote)),
    ];
    assert_eq!(marks, expected);
}

#[test]
fn nothing_else_marks_a_session() {
    for source in [
        r#"{"kind":"user","act":"framing"}"#,
        r#"{"kind":"sidechat"}"#,
        r#"{"kind":"sidechat","act":"Framing"}"#,
        r#"{"kind":"sidechat","act":null}"#,
        r#"{"kind":"sidechat","act":["framing"]}"#,
        r#"{"kind":"sidechat","framing":true}"#,
    ] {
        assert_eq!(mark(&[source]), None, "{source}");
    }
    // However it is written.
    let written = r#"{"kind":"side\u0063hat","act":"fram\u0069ng"}"#;
    assert_eq!(mark(&[written]), Some((seq(1), SideMark::Framing)));
}
