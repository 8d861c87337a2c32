//! Cuts and crashes of sessions that are valid by construction.

use offshoot_format::Container;
use offshoot_session::{EventLog, Seq, SessionHeader};

use crate::check;
use crate::choices::Choices;
use crate::script::Script;

/// How often a session is cut and goes on.
const GENERATIONS: usize = 4;

/// Any bytes as the decisions of a session, which is then forked or crashes anywhere, is closed, goes on, and again: every
/// state in between is a file that the validator accepts, and closing depends on nothing but the log.
pub fn closers(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut header = SessionHeader::new("root".into(), 1);
    let mut log = EventLog::new();
    for _ in 0..GENERATIONS {
        let mut script = Script::new(log);
        let length = 1 + choices.below(64);
        script.run(&mut choices, length);
        log = script.into_log();
        let container = choices.of(&[Container::Raw, Container::Zstd]);
        check::reads_back(container, &header, &log);

        let cut = Seq::new(choices.below(log.end().get() as usize) as u64);
        let child = check::forks(container, &header, &log, cut);
        let crashed = log.prefix(cut.after());
        let mut crashed_header = header.clone();
        crashed_header.is_seeded = crashed.inherited_marker().is_some();
        let repaired = check::repairs(container, &crashed_header, &crashed);
        keeps_markers(&log, &child.log, cut);

        let next = if choices.once_in(3) { repaired } else { child };
        let session = next.balanced(9).expect("the time is a valid one");
        check::reads_back(container, session.header(), session.log());
        header = session.header().clone();
        log = session.log().clone();
        if choices.is_empty() {
            return;
        }
    }
}

/// A child has the markers of its ancestors and one more, which is its own.
fn keeps_markers(parent: &EventLog, child: &EventLog, cut: Seq) {
    let markers = |log: &EventLog| -> Vec<Seq> {
        let tagged = log.events().filter(|event| {
            event.kind().as_str() == "session/end-seed" && event.data() == r#"{"inherited":true}"#
        });
        tagged.map(|event| event.seq()).collect()
    };
    let mut expected = markers(parent);
    expected.retain(|marker| *marker <= cut);
    expected.push(cut.after().seq());
    assert_eq!(markers(child), expected);
}
