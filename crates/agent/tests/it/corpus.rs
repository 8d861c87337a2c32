//! Every recorded session goes on over HTTP, from its end and from the middle of each of its calls.

use std::fs;
use std::sync::Arc;

use offshoot_format::decode;
use offshoot_session::{EventKind, EventLog, SessionId};
use offshoot_test_support::transcript::{Rules, SystemMessages};
use offshoot_test_support::{Reply, ScriptedModelServer, corpus};

use crate::bench::{Bench, ask, over_http};
use crate::support::endings;

#[tokio::test]
async fn every_recorded_session_goes_on_wherever_it_is_forked() {
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("every_recorded_session_goes_on_wherever_it_is_forked");
    }
    let mut continued = 0;
    let versions = (0..=4).map(|version| format!("v{version}-completed"));
    for file in versions.flat_map(corpus::files) {
        let bytes = fs::read(&file).unwrap();
        let Ok(stored) = decode(&bytes) else { continue };
        if stored.log.continuable().is_err() {
            continue;
        }
        let bench = Bench::new();
        let server = ScriptedModelServer::start([Reply::text("Here.")]);
        server.repeat_last();
        // Some of these programs told their model of changes to its prompt in the middle.
        server.judge_by(Rules {
            system_messages: SystemMessages::Anywhere,
        });
        let model = over_http(&server);
        let parent = bench.import(&bytes);
        let source = bench.read(&parent);
        let calls = source.stored.log.events();
        let calls = calls.filter(|event| *event.kind() == EventKind::ToolCall);
        let cuts = calls
            .map(|event| event.seq())
            .chain(source.stored.log.end().last());
        for cut in cuts.collect::<Vec<_>>() {
            let child = SessionId::new(format!("child-{cut}"));
            let fork = bench
                .service
                .prepare_fork(&source, Some(cut), Some(child.clone()))
                .unwrap();
            let attached = bench.service.store_fork(&fork).unwrap();
            let mut agent = bench.agent(attached, Arc::clone(&model));
            let reports = ask(&mut agent, "And now?").await;
            let place = format!("{}, cut at {cut}", file.display());
            assert_eq!(reports[0].text, "Here.", "{place}: {reports:?}");
            assert_eq!(
                endings(&bench.log(&child)).last().map(String::as_str),
                Some("completed")
            );
            continued += 1;
        }
        let rows = |log: &EventLog| {
            log.events()
                .map(|event| event.text().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            rows(&bench.log(&parent)),
            rows(&source.stored.log),
            "{}",
            file.display()
        );
        server.finish();
    }
    assert!(continued > 20, "only {continued}");
}
