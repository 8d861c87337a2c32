//! Linked forks: a session in pieces, put together again.

use offshoot_format::{
    Base, BranchHeader, Container, GrowingLog, RunningDigest, decode_as, read_header,
};
use offshoot_session::{EventLog, Seq, SessionHeader, build_fork_seed};

use crate::check;
use crate::choices::Choices;
use crate::script::Script;

/// Any bytes as the first line of a branch, and as the decisions of a session whose fork is kept in two pieces, one of which
/// may be damaged: what is put together is the fork, or is refused; and who reads the source piece by piece sees the same.
pub fn branch(bytes: &[u8]) {
    if let Ok(line) = std::str::from_utf8(bytes) {
        first_line(line);
    }
    let mut choices = Choices::new(bytes);
    let mut script = Script::new(EventLog::new());
    let length = 2 + choices.below(48);
    script.run(&mut choices, length);
    let log = script.into_log();
    let header = SessionHeader::new("root".into(), 1);
    let cut = Seq::new(choices.below(log.end().get() as usize) as u64);
    let seed = build_fork_seed(&log, cut).expect("an event of the log");
    let child = header.forked("child".into(), 2);

    let shared = 1 + choices.below(cut.after().get() as usize);
    let (mut base, mut digest, mut frames) = (
        Container::Zstd.header(&header).expect("it is valid"),
        RunningDigest::START,
        0,
    );
    let events: Vec<_> = seed.log().events().map(|event| &**event).collect();
    let (ahead, own) = events.split_at(shared);
    let size = 1 + choices.below(9);
    for batch in ahead.chunks(size) {
        let frame = Container::Zstd.batch(batch.iter().copied());
        digest.push(&frame);
        base.extend(frame);
        frames += 1;
    }
    let source = log.prefix(events[shared - 1].seq().after());
    grows(&base, &mut choices, &source);
    let branch = BranchHeader {
        session: child.clone(),
        bases: vec![Base {
            frames,
            bytes: base.len() as u64,
            events: events[shared - 1].seq().after(),
            digest,
        }],
    };
    let mut file = branch.encode().expect("it is valid");
    file.extend(Container::Zstd.batch(own.iter().copied()));

    let assembled = branch.assemble(&[&base], &file).expect("the very pieces");
    let whole = decode_as(Container::Zstd, &assembled.bytes).expect("a valid fork");
    assert_eq!(
        (&whole.header, whole.inherited),
        (&child, seed.inherited_event_count())
    );
    assert_eq!(check::texts(&whole.log), check::texts(seed.log()));

    let at = choices.below(base.len());
    let mask = choices.byte();
    base[at] ^= mask;
    match branch.assemble(&[&base], &file) {
        // The base's own header is not the fork's business.
        Ok(again) => assert_eq!(again.bytes, assembled.bytes),
        Err(error) => {
            assert_ne!(mask, 0);
            check::explains(&error);
        }
    }
}

fn first_line(line: &str) {
    match BranchHeader::read(line) {
        Ok(header) => {
            let encoded = header.encode().expect("what was read can be written");
            let again = read_header(Container::Zstd, &encoded).expect("it begins with its line");
            assert_eq!(BranchHeader::read(&again), Ok(header));
        }
        Err(error) => check::explains(&error),
    }
}

/// Reads a file in pieces.
fn grows(bytes: &[u8], choices: &mut Choices<'_>, whole: &EventLog) {
    let first = (1..=bytes.len()).find(|&end| read_header(Container::Zstd, &bytes[..end]).is_ok());
    let first = first.expect("it has a header");
    let (mut growing, _) = GrowingLog::begin(Container::Zstd, &bytes[..first])
        .expect("a valid beginning")
        .expect("the current version");
    let mut end = first;
    while end < bytes.len() {
        end = (end + 1 + choices.below(300)).min(bytes.len());
        let from = usize::try_from(growing.offset()).expect("it is in memory");
        growing.go_on(&bytes[from..end]).expect("a valid file");
    }
    assert_eq!(check::texts(growing.log()), check::texts(whole));
}
