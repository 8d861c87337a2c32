//! Real processes that write, fork and reopen until they are killed: whatever they had acknowledged is there.
//!
//! A child tells on a pipe what the store has acknowledged, after it did. The parent kills it at a random moment, opens
//! everything, and starts the next one on what is left. `cargo xtask torture` runs the same for as many rounds as one
//! likes.
#![expect(
    clippy::print_stdout,
    reason = "a child reports to its parent through a pipe"
)]

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use offshoot_format::{Container, RunningDigest};
use offshoot_session::{Event, EventLog, Seq, SessionId};
use offshoot_store::testing::seeded_child;
use offshoot_store::{JsonlStore, Persistence as _, SessionWriter};

use crate::child;
use crate::faulty::FaultyDisk;
use crate::support::{Home, NOW, all, header, log, next_events, texts};

/// How many rounds to run. Without it the rounds are as many as go into the time that a test has.
const ROUNDS: &str = "OFFSHOOT_STORE_TEST_ROUNDS";
const SEED: &str = "OFFSHOOT_STORE_TEST_SEED";
/// What a report begins with, among whatever else is printed.
const ACKNOWLEDGED: &str = "#acknowledged ";
/// How many children work in one home, one after the other.
const LIVES: u64 = 10;
const MOST_SESSIONS: u64 = 12;
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

/// A session that the child has open.
struct Open {
    id: SessionId,
    log: EventLog,
    writer: Box<dyn SessionWriter>,
}

impl Open {
    fn report(&self) {
        let rows = self.log.events().map(|event| event.text());
        let (id, end) = (&self.id, self.log.end());
        println!("{ACKNOWLEDGED}{id} {end} {}", digest(rows));
    }
}

/// What a child does until it is killed, or nobody reads its reports.
pub(crate) fn work(store: &JsonlStore, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut open: Vec<Open> = Vec::new();
    for listed in all(store) {
        open.push(reopen(store, listed.id));
    }
    for count in 0.. {
        match dice.below(8) {
            0 if (open.len() as u64) < MOST_SESSIONS => {
                open.push(create(store, &mut dice, &format!("s-{seed}-{count}")));
            }
            1 | 2 if !open.is_empty() && (open.len() as u64) < MOST_SESSIONS => {
                let at = pick(&mut dice, &open);
                open.extend(fork(
                    store,
                    &mut dice,
                    &open[at],
                    &format!("f-{seed}-{count}"),
                ));
            }
            3 if !open.is_empty() => {
                let at = pick(&mut dice, &open);
                let id = open.swap_remove(at).id;
                open.push(reopen(store, id));
            }
            _ if !open.is_empty() => {
                let at = pick(&mut dice, &open);
                append(&mut dice, &mut open[at]);
            }
            _ => {}
        }
    }
}

fn pick(dice: &mut Dice, open: &[Open]) -> usize {
    usize::try_from(dice.below(open.len() as u64)).unwrap()
}

fn messages(dice: &mut Dice) -> Vec<usize> {
    let count = [0, 1, 1, 2, 5, 30][usize::try_from(dice.below(6)).unwrap()];
    let size = |_| [3, 80, 700, 9_000][usize::try_from(dice.below(4)).unwrap()];
    (0..count).map(size).collect()
}

fn create(store: &JsonlStore, dice: &mut Dice, id: &str) -> Open {
    let header = header(id);
    let mut writer = store.create(&header).unwrap();
    let batch = next_events(&EventLog::new(), &messages(dice));
    writer.append(&batch).unwrap();
    let open = Open {
        id: header.id,
        log: log(&batch),
        writer,
    };
    open.report();
    open
}

fn append(dice: &mut Dice, open: &mut Open) {
    let batch = next_events(&open.log, &messages(dice));
    open.writer.append(&batch).unwrap();
    for event in batch {
        open.log.push(event).unwrap();
    }
    open.report();
}

/// A fork of a session by who has it open.
fn fork(store: &JsonlStore, dice: &mut Dice, open: &Open, id: &str) -> Option<Open> {
    let cut = Seq::new(dice.below(open.log.end().get().max(1)));
    open.log.get(cut)?;
    let parent = header(open.id.as_str());
    let (header, seed) = seeded_child(&parent, &open.log, cut, id);
    let writer = store
        .fork(&header, &seed, &open.writer.shareable())
        .unwrap();
    let child = Open {
        id: header.id,
        log: seed.log().clone(),
        writer,
    };
    child.report();
    Some(child)
}

fn reopen(store: &JsonlStore, id: SessionId) -> Open {
    let opened = store.open(&id, NOW).unwrap();
    let open = Open {
        id,
        log: opened.session.log().clone(),
        writer: opened.writer,
    };
    open.report();
    open
}

/// What was acknowledged last of each session: so many events, with this digest.
type Ledger = BTreeMap<String, (usize, String)>;

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

fn note(ledger: &mut Ledger, line: &str) {
    let Some((_, report)) = line.split_once(ACKNOWLEDGED) else {
        return;
    };
    let mut words = report.split(' ');
    let mut word = || words.next().unwrap().to_owned();
    let (id, count, digest) = (word(), word(), word());
    ledger.insert(id, (count.parse().unwrap(), digest));
}

/// What came of all rounds.
#[derive(Debug, Default)]
struct Figures {
    rounds: u64,
    homes: u64,
    sessions: usize,
    acknowledged: usize,
    repaired: u64,
}

impl Figures {
    fn text(&self, seed: u64) -> String {
        let mut text = String::new();
        for (name, number) in [
            ("rounds, each ended by SIGKILL", self.rounds),
            ("homes", self.homes),
            ("sessions", self.sessions as u64),
            ("acknowledged events", self.acknowledged as u64),
            ("sessions repaired", self.repaired),
            ("events lost", 0),
        ] {
            writeln!(text, "{number:>12}  {name}").unwrap();
        }
        write!(text, "{seed:>12}  seed").unwrap();
        text
    }
}

/// One home, in which one child after the other is killed.
fn torture_home(seed: u64, rounds: u64, figures: &mut Figures) {
    let mut dice = Dice::new(seed);
    let (home, container) = match dice.below(4) {
        0 => (Home::new(), Container::Raw),
        1 => (Home::new(), Container::Zstd),
        _ => (Home::ours(), Container::Zstd),
    };
    let mut ledger = Ledger::new();
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        let victim = Victim::start("torture", &home.root(), container, seed);
        let reports = usize::try_from(dice.below(MOST_REPORTS)).unwrap();
        for line in victim.reports.iter().take(reports) {
            note(&mut ledger, &line);
        }
        let end = now() + Duration::from_micros(dice.below(LONGEST));
        // Reports are read meanwhile, so that no full pipe holds the child up.
        while let Ok(line) = victim
            .reports
            .recv_timeout(end.saturating_duration_since(now()))
        {
            note(&mut ledger, &line);
        }
        for line in victim.kill() {
            note(&mut ledger, &line);
        }
        let context = format!("seed {seed}, round {round}, {container:?}");
        figures.repaired += check(&home, container, &mut ledger, &context);
        figures.rounds += 1;
    }
    figures.homes += 1;
    figures.sessions += ledger.len();
    figures.acknowledged += ledger.values().map(|(count, _)| count).sum::<usize>();
}

/// Every acknowledged event is there; every session opens, and the second time that changes nothing. Says how many had
/// to be repaired. What they hold then is acknowledged too.
fn check(home: &Home, container: Container, ledger: &mut Ledger, context: &str) -> u64 {
    // The power stays on, so that nothing has to be synced for this.
    let store = JsonlStore::on(home.root(), container, FaultyDisk::sound());
    let mut repaired = 0;
    let listed = all(&store);
    for id in ledger.keys() {
        let is_there = listed.iter().any(|listed| listed.id.as_str() == id);
        assert!(is_there, "{context}: `{id}` is lost");
    }
    for listed in listed {
        let id = listed.id;
        let context = format!("{context}: `{id}`");
        let read = store.read(&id);
        let read = read.unwrap_or_else(|error| panic!("{context}: {error}"));
        let rows = texts(read.stored.log.events());
        if let Some((count, acknowledged)) = ledger.get(id.as_str()) {
            let found = rows
                .get(..*count)
                .map(|rows| digest(rows.iter().map(String::as_str)));
            let found = found.map(|digest| digest.to_string());
            assert_eq!(found.as_ref(), Some(acknowledged), "{context}");
        }
        let opened = store.open(&id, NOW);
        let opened = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
        repaired += u64::from(opened.repair.is_some());
        let whole = opened.session.log();
        assert_eq!(texts(whole.events())[..rows.len()], rows, "{context}");
        let all = digest(
            whole
                .events()
                .map(|event: &std::sync::Arc<Event>| event.text()),
        );
        let end = usize::try_from(whole.end().get()).unwrap();
        ledger.insert(id.to_string(), (end, all.to_string()));
        drop(opened);

        let bytes = fs::read(&read.path).unwrap();
        let again = store.open(&id, NOW + 1).unwrap();
        assert_eq!(again.repair, None, "{context}");
        drop(again);
        assert_eq!(fs::read(&read.path).unwrap(), bytes, "{context}");
    }
    repaired
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
    let time = Duration::from_secs(if env::var_os("CI").is_some() { 50 } else { 5 });
    let (start, mut figures) = (now(), Figures::default());
    while rounds.map_or_else(|| start.elapsed() < time, |rounds| figures.rounds < rounds) {
        let left = rounds.map_or(LIVES, |rounds| rounds - figures.rounds);
        let home_seed = seed.wrapping_add(figures.homes.wrapping_mul(1_000));
        torture_home(home_seed, left.min(LIVES), &mut figures);
        if rounds.is_some() && figures.homes.is_multiple_of(50) {
            eprintln!("{} rounds after {:?}", figures.rounds, start.elapsed());
        }
    }
    println!("{}", figures.text(seed));
    assert!(figures.acknowledged > 0, "no child has come to anything");
}
