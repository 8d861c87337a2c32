//! Real processes that write, fork and reopen until they are killed: whatever they had acknowledged is there.
//!
//! A child writes behind, streams answers, forks, deletes and restores. It tells on a pipe what the store has acknowledged,
//! after it did. The parent kills it at a random moment, opens everything, and starts the next one on what is left. `cargo xtask torture` runs the same for as many rounds as one
//! likes.
#![expect(
    clippy::print_stdout,
    reason = "a child reports to its parent through a pipe"
)]

mod work;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use offshoot_format::{Container, RunningDigest};
use offshoot_session::SessionId;
use offshoot_store::{Choice, HOME_MARKER, JsonlStore, Persistence as _};
use tempfile::TempDir;

pub(crate) use self::work::work;
use crate::child;
use crate::faulty::FaultyDisk;
use crate::journal::Texts;
use crate::simulated::{Place, ends_attempt};
use crate::support::{NOW, all, texts, write};

/// How many rounds to run. Without it the rounds are as many as go into the time that a test has.
const ROUNDS: &str = "OFFSHOOT_STORE_TEST_ROUNDS";
const SEED: &str = "OFFSHOOT_STORE_TEST_SEED";
/// What a report begins with, among whatever else is printed.
const ACKNOWLEDGED: &str = "#acknowledged ";
const STREAMED: &str = "#streamed ";
const PLACE: &str = "#place ";
/// Events among which one ends the attempt that was streaming.
const ENDED: &str = "ended";
/// How many children work in one home, one after the other.
const LIVES: u64 = 8;
/// A child lives until it has reported at most so often, and then at most so long, in µs.
const MOST_REPORTS: u64 = 25;
const LONGEST: u64 = 8_000;

/// Numbers that depend on a seed alone (xorshift64*).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike, and 0 would stay 0.
        let mut dice = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        dice.below(2);
        dice
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % end
    }
}

/// What a log holds up to some event, in one value.
pub(crate) fn digest<'a>(rows: impl IntoIterator<Item = &'a str>) -> RunningDigest {
    let mut digest = RunningDigest::START;
    for row in rows {
        digest.push(row.as_bytes());
    }
    digest
}

/// What was acknowledged of a session.
#[derive(Debug, Default)]
struct Known {
    /// So many events, with this digest.
    count: usize,
    digest: String,
    /// So many lines of an answer behind them, which nothing has ended.
    lines: usize,
    place: Place,
}

type Ledger = BTreeMap<String, Known>;

/// A running child. It is killed when this is dropped, whatever has happened.
#[derive(Debug)]
pub(crate) struct Victim {
    child: Child,
    pub(crate) reports: Receiver<String>,
}

impl Victim {
    pub(crate) fn start(job: &str, root: &Path, container: Container, seed: u64) -> Self {
        let mut child = child::reporting(job, root, container, seed);
        let stdout = child.stdout.take().unwrap();
        let (sender, reports) = channel();
        std::thread::spawn(move || {
            for line in whole_lines(stdout) {
                // Nobody listens any more: the test has failed.
                let Ok(()) = sender.send(line) else {
                    return;
                };
            }
        });
        Self { child, reports }
    }

    /// SIGKILL. What it had reported by then is still in the pipe.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(9));
        self.reports.iter().collect()
    }

    /// Waits for its end. Returns all that it has reported.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let reports = self.reports.iter().collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the child has failed: {status}");
        reports
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _it_may_have_been_waited_for = self.child.wait();
    }
}

/// A line that the kill has cut off was not written, and what it would have said was not acknowledged to anybody.
fn whole_lines(stdout: ChildStdout) -> impl Iterator<Item = String> {
    let mut stdout = BufReader::new(stdout);
    std::iter::from_fn(move || {
        let mut line = String::new();
        stdout.read_line(&mut line).ok()?;
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    })
}

/// Takes down a report. Returns how many more lines of an answer it acknowledges.
fn note(ledger: &mut Ledger, line: &str) -> u64 {
    let said = |what| line.split_once(what).map(|(_, report)| report.split(' '));
    if let Some(mut words) = said(ACKNOWLEDGED) {
        let mut word = || words.next().unwrap();
        let known = ledger.entry(word().to_owned()).or_default();
        known.count = word().parse().unwrap();
        known.digest = word().to_owned();
        if word() == ENDED {
            known.lines = 0;
        }
    } else if let Some(mut words) = said(STREAMED) {
        let known = ledger.entry(words.next().unwrap().to_owned()).or_default();
        let lines: usize = words.next().unwrap().parse().unwrap();
        // Fewer than before: another answer.
        let before = if known.lines < lines { known.lines } else { 0 };
        known.lines = lines;
        return (lines - before) as u64;
    } else if let Some(mut words) = said(PLACE) {
        let known = ledger.entry(words.next().unwrap().to_owned()).or_default();
        known.place = Place::named(words.next().unwrap()).unwrap();
    }
    0
}

/// What came of all rounds.
#[derive(Debug, Default)]
struct Figures {
    rounds: u64,
    kills: u64,
    homes: u64,
    sessions: u64,
    events: u64,
    lines: u64,
    settled: u64,
    repaired: u64,
}

impl Figures {
    fn text(&self, seed: u64, time: Duration) -> String {
        let mut text = String::new();
        for (number, name) in [
            (self.rounds, "rounds"),
            (self.kills, "kills (SIGKILL)"),
            (self.homes, "homes"),
            (self.sessions, "sessions"),
            (self.events, "acknowledged events"),
            (self.lines, "acknowledged deltas"),
            (self.settled, "answers settled"),
            (self.repaired, "sessions repaired"),
            // Whatever is missing ends the run.
            (0, "lost"),
            (time.as_secs(), "seconds"),
        ] {
            writeln!(text, "{number:>12}  {name}").unwrap();
        }
        write!(text, "{seed:>12}  seed").unwrap();
        text
    }
}

/// A home for one child after the other. Where there is a disk in memory most are there: a killed process loses nothing
/// that it has handed to the system, so that only the moments differ.
fn home_of(dice: &mut Dice) -> (TempDir, Container) {
    let memory = Path::new("/dev/shm");
    let home = match dice.below(8) > 0 && memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    };
    let container = match dice.below(4) {
        0 => Container::Raw,
        _ => Container::Zstd,
    };
    if dice.below(3) > 0 {
        write(&home.path().join(HOME_MARKER), "{\"layout\":1}\n");
    }
    (home, container)
}

/// One home, in which one child after the other is killed.
fn torture_home(seed: u64, rounds: u64, figures: &mut Figures) {
    let mut dice = Dice::new(seed);
    let (home, container) = home_of(&mut dice);
    let root = home.path().join("sessions");
    let mut ledger = Ledger::new();
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        let victim = Victim::start("torture", &root, container, seed);
        let reports = usize::try_from(dice.below(MOST_REPORTS)).unwrap();
        for line in victim.reports.iter().take(reports) {
            figures.lines += note(&mut ledger, &line);
        }
        let end = now() + Duration::from_micros(dice.below(LONGEST));
        // Reports are read meanwhile, so that no full pipe holds the child up.
        while let Ok(line) = victim
            .reports
            .recv_timeout(end.saturating_duration_since(now()))
        {
            figures.lines += note(&mut ledger, &line);
        }
        for line in victim.kill() {
            figures.lines += note(&mut ledger, &line);
        }
        figures.kills += 1;
        let context = format!("seed {seed}, round {round}, {container:?}");
        check(&root, container, &mut ledger, &context, figures);
        leave_in_trash(&root, container, &mut ledger, &mut dice);
        figures.rounds += 1;
    }
    figures.homes += 1;
    figures.sessions += ledger.len() as u64;
    figures.events += ledger.values().map(|known| known.count as u64).sum::<u64>();
}

/// The store of a home in which the power stays on, so that nothing has to be synced.
fn store(root: &Path, container: Container) -> JsonlStore {
    JsonlStore::on(root, container, FaultyDisk::sound()).settling(Arc::new(Texts))
}

/// Everything acknowledged is there, in its place or in the trash; every session opens, and the second time that changes
/// nothing. What they hold then is acknowledged too. Nothing is left in the trash.
fn check(
    root: &Path,
    container: Container,
    ledger: &mut Ledger,
    context: &str,
    figures: &mut Figures,
) {
    let store = store(root, container);
    let trash = store.trashed().unwrap();
    assert!(trash.problems.is_empty(), "{context}: {trash:?}");
    let listed = all(&store);
    for (id, known) in &*ledger {
        let here = listed.iter().any(|one| one.id.as_str() == id);
        let in_trash = trash.sessions.iter().any(|one| one.id.as_str() == id);
        let place = known.place;
        let whole = format!("{context}: `{id}`: {place:?}, {here}, {in_trash}");
        // One that was not finished need not be there.
        let is_fine = place.allows(here, in_trash) || (known.digest.is_empty() && !in_trash);
        assert!(is_fine, "{whole}");
    }
    for one in &trash.sessions {
        let restored = store.restore_from_trash(&one.id, &Choice::Newest);
        restored.unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    for listed in all(&store) {
        let context = format!("{context}: `{}`", listed.id);
        let known = ledger.entry(listed.id.to_string()).or_default();
        let kept = check_session(&store, &listed.id, known, &context, figures);
        *known = kept;
    }
}

/// Opens a session, and says what it holds.
fn check_session(
    store: &JsonlStore,
    id: &SessionId,
    known: &Known,
    context: &str,
    figures: &mut Figures,
) -> Known {
    let read = store.read(id);
    let read = read.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(read.stray, None, "{context}");
    let rows = texts(read.stored.log.events());
    assert!(rows.len() >= known.count, "{context}: {known:?} {rows:#?}");
    let (acknowledged, behind) = rows.split_at(known.count);
    if known.count > 0 {
        let found = digest(acknowledged.iter().map(String::as_str)).to_string();
        assert_eq!(found, known.digest, "{context}");
    }
    if known.lines > 0 {
        // The answer itself, or what the journal has of it.
        let answer = behind.iter().find(|row| ends_attempt(row));
        let pieces: String = (0..known.lines).map(|line| format!("{line} ")).collect();
        let begins = format!("\"text\":\"{pieces}");
        let is_kept = answer.is_some_and(|row| row.contains(&begins));
        assert!(is_kept, "{context}: {known:?}: {behind:#?}");
    }
    let opened = store.open(id, NOW);
    let opened = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
    let settled = opened.repair.as_ref().and_then(|repair| repair.settled);
    assert_eq!(settled, read.settled, "{context}");
    figures.settled += u64::from(settled.is_some());
    figures.repaired += u64::from(opened.repair.is_some());
    let whole = texts(opened.session.log().events());
    assert_eq!(whole[..rows.len()], rows, "{context}");
    drop(opened);

    let bytes = fs::read(&read.path).unwrap();
    let again = store.open(id, NOW + 1).unwrap();
    assert_eq!(again.repair, None, "{context}");
    drop(again);
    assert_eq!(fs::read(&read.path).unwrap(), bytes, "{context}");
    Known {
        count: whole.len(),
        digest: digest(whole.iter().map(String::as_str)).to_string(),
        lines: 0,
        place: Place::Here,
    }
}

/// Deletes some session now and then, for the next child.
fn leave_in_trash(root: &Path, container: Container, ledger: &mut Ledger, dice: &mut Dice) {
    let store = store(root, container);
    for listed in all(&store) {
        if dice.below(4) == 0 {
            store.delete(&listed.id, NOW).unwrap();
            let known = ledger.get_mut(listed.id.as_str()).unwrap();
            known.place = Place::Trash;
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|error| panic!("{name}={text}: {error}")),
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "when a process is killed is the point"
)]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn what_a_killed_process_had_acknowledged_is_there() {
    let seed = number(SEED).unwrap_or_else(|| RandomState::new().build_hasher().finish() >> 32);
    println!("seed {seed}");
    let rounds = number(ROUNDS);
    let time = Duration::from_secs(if env::var_os("CI").is_some() { 100 } else { 5 });
    let (start, mut figures) = (now(), Figures::default());
    while rounds.map_or_else(|| start.elapsed() < time, |rounds| figures.rounds < rounds) {
        let left = rounds.map_or(LIVES, |rounds| rounds - figures.rounds);
        let home_seed = seed.wrapping_add(figures.homes.wrapping_mul(1_000));
        torture_home(home_seed, left.min(LIVES), &mut figures);
        if rounds.is_some() && figures.homes.is_multiple_of(50) {
            eprintln!("{} rounds after {:?}", figures.rounds, start.elapsed());
        }
    }
    println!("{}", figures.text(seed, start.elapsed()));
    assert!(
        figures.events > 0 && figures.lines > 0,
        "no child has come to anything"
    );
}
