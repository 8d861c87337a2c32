//! A turn against a model that takes no time.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use offshoot_agent::{Cancel, Driver, SessionService};
use offshoot_format::Container;
use offshoot_model::{ProviderConfig, ProviderKind, ProviderModel};
use offshoot_store::JsonlStore;

use crate::history::{PROMPT, env, runtime, service, setup, with_turns};
use crate::provider::{Answer, Provider, TEXT, prose};
use crate::{ms, percentile};

const ROUNDS: usize = 200;

pub(crate) fn run() {
    println!("### Turns against a model on loopback that takes no time\n");
    println!(
        "The baseline sends the same requests bare, over the same kind of connection, reads the answers, and writes and syncs \
         as often as the turn waits for it. What is left is the harness. Processor time is that of all threads, the model's \
         included; it says more than the clock where others use the machine.\n"
    );
    println!(
        "| turn | history | p50 | p99 | baseline p50 | p99 | **beyond p50** | **p99** | **processor, beyond p50** |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for history in [0, 200, 2_000] {
        measure(Answer::Text, history);
        measure(Answer::ToolThenText, history);
    }
    println!();
    bytes_of_a_turn();
}

fn measure(answer: Answer, history: usize) {
    let home = tempfile::tempdir().expect("a directory");
    let work = home.path().join("work");
    std::fs::create_dir(&work).expect("a directory");
    std::fs::write(work.join("notes.txt"), "alpha\nbeta\n").expect("a file");
    let env = env();
    let service = service(home.path(), &env);
    let id = with_turns(&service, &env, &work, history.max(1));
    let provider = Provider::start(answer, "notes.txt");
    let model = ProviderModel::new(ProviderConfig::new(
        ProviderKind::Compatible,
        "bench",
        provider.base_url.as_str(),
    ));
    let attached = service.open(&id).expect("it was just written").attached;
    let mut driver = Driver::new(attached, setup(Arc::new(model.expect("a model")), &env));
    let runtime = runtime();
    let mut turn = || {
        let start = Start::now();
        driver.submit(PROMPT).expect("it takes input");
        let reports = runtime.block_on(driver.run(&Cancel::new()));
        let spent = start.spent();
        assert_eq!(reports.expect("a turn")[0].text, TEXT);
        spent
    };
    turn();
    let syncs = match answer {
        Answer::Prose => unreachable!("pages are not timed"),
        Answer::Text => 2,
        Answer::ToolThenText => 3,
    };
    let bodies = {
        let mut seen = provider.seen.lock().expect("nobody panics with it");
        std::mem::take(&mut seen.bodies)
    };
    let client = reqwest::Client::new();
    let url = format!("{}/chat/completions", provider.base_url);
    let mut file = File::create(home.path().join("baseline")).expect("a file");
    let mut bare = || {
        let start = Start::now();
        for body in &bodies {
            let request = client.post(&url).body(body.clone()).send();
            runtime.block_on(async {
                let reply = request.await.expect("an answer");
                reply.bytes().await.expect("all of it")
            });
        }
        for _ in 0..syncs {
            file.write_all(&[7; 700]).expect("room");
            file.sync_all().expect("a disk");
        }
        start.spent()
    };
    bare();
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        ours.push(turn());
        theirs.push(bare());
    }
    let what = match answer {
        Answer::Prose => "a page",
        Answer::Text => "text",
        Answer::ToolThenText => "one tool",
    };
    let at = |times: &mut Times, percent| percentile(&mut times.passed, percent);
    let (p50, p99) = (at(&mut ours, 50), at(&mut ours, 99));
    let (b50, b99) = (at(&mut theirs, 50), at(&mut theirs, 99));
    let worked = |times: &mut Times| percentile(&mut times.worked, 50);
    let work = worked(&mut ours).saturating_sub(worked(&mut theirs));
    println!(
        "| {what} | {history} turns | {} | {} | {} | {} | **{}** | **{}** | **{}** |",
        ms(p50),
        ms(p99),
        ms(b50),
        ms(b99),
        ms(p50.saturating_sub(b50)),
        ms(p99.saturating_sub(b99)),
        ms(work),
    );
}

/// When something began.
struct Start {
    clock: Instant,
    processor: Duration,
}

/// What something took.
struct Spent {
    passed: Duration,
    worked: Duration,
}

#[derive(Default)]
struct Times {
    passed: Vec<Duration>,
    worked: Vec<Duration>,
}

impl Start {
    fn now() -> Self {
        Self {
            clock: Instant::now(),
            processor: processor_time(),
        }
    }

    fn spent(&self) -> Spent {
        Spent {
            passed: self.clock.elapsed(),
            worked: processor_time().saturating_sub(self.processor),
        }
    }
}

impl Times {
    fn push(&mut self, Spent { passed, worked }: Spent) {
        self.passed.push(passed);
        self.worked.push(worked);
    }
}

/// What all threads of this process have used so far.
fn processor_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime)
        .try_into()
        .expect("it is not negative")
}

/// What a turn of text adds to the file, raw and packed, beside the text itself.
fn bytes_of_a_turn() {
    println!("### Bytes of a turn of text\n");
    println!("| text | container | in and out | added to the file | ratio |");
    println!("|---|---|---|---|---|");
    for (what, answer) in [("a line", Answer::Text), ("a page", Answer::Prose)] {
        for (name, container) in [("raw", Container::Raw), ("zstd", Container::Zstd)] {
            let (text, added) = added_by_a_turn(answer, container);
            let ratio = added as f64 / text as f64;
            println!("| {what} | {name} | {text} B | {added} B | {ratio:.1} |");
        }
    }
    println!();
}

/// The text of a turn and what it adds to the file, in bytes, on average.
fn added_by_a_turn(answer: Answer, container: Container) -> (u64, u64) {
    const TURNS: usize = 20;
    let home = tempfile::tempdir().expect("a directory");
    let env = env();
    let store = JsonlStore::new(home.path().join("sessions"), container);
    let service = SessionService::new(Arc::new(store), env.clone());
    let id = with_turns(&service, &env, home.path(), 20);
    let provider = Provider::start(answer, "notes.txt");
    let model = ProviderModel::new(ProviderConfig::new(
        ProviderKind::Compatible,
        "bench",
        provider.base_url.as_str(),
    ));
    let attached = service.open(&id).expect("it was just written").attached;
    let mut driver = Driver::new(attached, setup(Arc::new(model.expect("a model")), &env));
    let runtime = runtime();
    let mut text = 0;
    let mut turn = |number: usize| {
        let prompt = match answer {
            Answer::Prose => prose(1_000 + number, 600),
            _ => PROMPT.to_owned(),
        };
        driver.submit(&prompt).expect("it takes input");
        let reports = runtime.block_on(driver.run(&Cancel::new()));
        text += prompt.len() + reports.expect("a turn")[0].text.len();
    };
    // The first one after opening logs a header and a marker.
    turn(0);
    let opened = size(home.path());
    (1..=TURNS).for_each(&mut turn);
    let text = text * TURNS / (TURNS + 1);
    (
        (text / TURNS) as u64,
        (size(home.path()) - opened) / TURNS as u64,
    )
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let sizes = entries.map(|entry| {
        let entry = entry.expect("an entry");
        let kind = entry.metadata().expect("its metadata");
        if kind.is_dir() {
            size(&entry.path())
        } else if entry
            .file_name()
            .to_string_lossy()
            .starts_with("session.v4")
        {
            kind.len()
        } else {
            0
        }
    });
    sizes.sum()
}
