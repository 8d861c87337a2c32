//! Whole files of every version.

use offshoot_format::{Container, decode};
use offshoot_session::{LogOffset, Seq};

use crate::{check, files};

/// Cuts that are tried of one file: enough to meet every kind of place in a corpus, few enough to be fast.
const CUTS: u64 = 6;

/// Any bytes as a file of any version: what is read is, written as the current version, read as the same events; an open
/// turn has one way to be closed; and the log can be forked wherever it is cut.
pub fn chain(bytes: &[u8]) {
    let file = files::file(bytes);
    let stored = match decode(&file) {
        Ok(stored) => stored,
        Err(error) => {
            check::explains(&error);
            assert_eq!(decode(&file).err(), Some(error), "the same bytes");
            return;
        }
    };
    check::is_sound(&stored, file.len());
    let again = decode(&file).expect("the same bytes were read before");
    assert_eq!(check::texts(&again.log), check::texts(&stored.log));
    assert_eq!(again.tail, stored.tail);

    let container = Container::detect(&file);
    check::reads_back(container, &stored.header, &stored.log);
    check::repairs(container, &stored.header, &stored.log);
    let end = stored.log.end().get();
    let stride = (end / CUTS).max(1) as usize;
    for cut in (0..end).step_by(stride).map(Seq::new) {
        let child = check::forks(container, &stored.header, &stored.log, cut);
        let last = child.log.end().last().expect("it has its marker");
        check::forks(container, &child.header, &child.log, last);

        let mut header = stored.header.clone();
        let prefix = stored.log.prefix(cut.after());
        header.is_seeded = prefix.inherited_marker().is_some();
        check::repairs(container, &header, &prefix);
    }
    let session = stored.balanced(9).expect("the time is a valid one");
    assert!(session.log().open_tail().turn().is_none());
    assert!(session.log().end() > LogOffset::START || !session.header().is_seeded);
}
