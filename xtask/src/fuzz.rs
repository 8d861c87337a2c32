//! `cargo xtask fuzz`: the targets of the crate `fuzz` under libFuzzer, on the stable toolchain.
//!
//! Coverage needs flags of the compiler that are stable; only sanitizers of memory would need a nightly one, and without
//! unsafe code there is little for them to find. What was learned is kept below cargo's target directory and used by the
//! next run; what was found goes to `fuzz/artifacts`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::cargo::Cargo;
use crate::metadata::host_platform;
use crate::test::corpus;

const PACKAGE: &str = "offshoot-fuzz";
const PROFILE: &str = "fuzz";

/// What makes the compiler count edges and hand comparisons to libFuzzer. One unit per crate, so that nothing is counted
/// twice.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// Runs the named targets, or all, for so many minutes each.
///
/// # Errors
/// Findings, after all targets have run; also what keeps a target from running.
pub(crate) fn run(root: &Path, minutes: u32, named: &[String]) -> Result<()> {
    let targets = chosen(&all_targets(root)?, named)?;
    let platform = host_platform()?;
    // Its own place: with these flags every crate is another one.
    let place = target_directory(root)?.join("fuzz");
    let build = build(&place, &platform, &targets);
    eprintln!("running `{build}`");
    build.run(root)?;

    let mut outcomes = Vec::new();
    for target in &targets {
        let seeds = place.join("seeds").join(target);
        write_seeds(root, target, &seeds)?;
        eprintln!("fuzz: {target} for {minutes} min");
        let program = place.join(&platform).join(PROFILE).join(program(target));
        outcomes.push(run_target(root, &place, target, &program, minutes)?);
    }

    println!("{}", Outcome::HEADING);
    for outcome in &outcomes {
        println!("{outcome}");
    }
    let findings: Vec<&String> = outcomes
        .iter()
        .flat_map(|outcome| &outcome.findings)
        .collect();
    for finding in &findings {
        println!("found: {finding}");
    }
    ensure!(
        findings.is_empty(),
        "fuzzing has findings\nhint: `cargo run -p {PACKAGE} --bin fuzz-TARGET -- FILE` repeats one; once it is mended, \
         keep the file in `fuzz/regressions/TARGET`"
    );
    Ok(())
}

/// Every target is a file.
fn all_targets(root: &Path) -> Result<Vec<String>> {
    let mut targets: Vec<String> = files(&root.join("fuzz").join("targets"))?
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    targets.sort();
    Ok(targets)
}

fn chosen(all: &[String], named: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!(
            "there is no fuzz target `{unknown}`\nhint: there are {}",
            all.join(", ")
        );
    }
    let wanted = |target: &&String| named.is_empty() || named.contains(target);
    Ok(all.iter().filter(wanted).cloned().collect())
}

fn program(target: &str) -> String {
    format!("fuzz-{target}{}", std::env::consts::EXE_SUFFIX)
}

/// With a platform named, cargo leaves build scripts and macros alone.
fn build(place: &Path, platform: &str, targets: &[String]) -> Cargo {
    let mut build = Cargo::new(["build", "--locked", "-p", PACKAGE, "--profile", PROFILE])
        .args(&["--target".into(), platform.into()])
        .env("CARGO_TARGET_DIR", place.to_string_lossy())
        .env("RUSTFLAGS", FLAGS.join(" "));
    for target in targets {
        build = build.args(&["--bin".into(), format!("fuzz-{target}")]);
    }
    build
}

#[derive(Deserialize)]
struct Directories {
    target_directory: PathBuf,
}

fn target_directory(root: &Path) -> Result<PathBuf> {
    let json =
        Cargo::new(["metadata", "--format-version=1", "--no-deps", "--locked"]).output(root)?;
    let directories: Directories =
        serde_json::from_slice(&json).context("understand what `cargo metadata` printed")?;
    Ok(directories.target_directory)
}

/// What the fuzzer starts from: our own files, recorded sessions where there are any, and what was found before.
fn write_seeds(root: &Path, target: &str, into: &Path) -> Result<()> {
    if into.exists() {
        fs::remove_dir_all(into).with_context(|| format!("empty `{}`", into.display()))?;
    }
    fs::create_dir_all(into).with_context(|| format!("create `{}`", into.display()))?;
    let corpus = corpus(root);
    let recorded = (0..=4).map(|version| corpus.join(format!("v{version}-completed")));
    let own = root.join("crates/format/tests/fixtures");
    let mut seeds = Vec::new();
    let mut seen = HashSet::new();
    for path in all_files([own].into_iter().chain(recorded))? {
        let bytes = fs::read(&path).with_context(|| format!("read `{}`", path.display()))?;
        seeds.extend(parts(target, &bytes, &mut seen));
    }
    for path in all_files([root.join("fuzz/regressions").join(target)])? {
        seeds.push(fs::read(&path).with_context(|| format!("read `{}`", path.display()))?);
    }
    for (number, seed) in seeds.iter().enumerate() {
        let path = into.join(format!("{number:05}"));
        write(&path, seed).with_context(|| format!("write `{}`", path.display()))?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "seeds are copies that the next run writes anew"
)]
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    fs::write(path, bytes)
}

/// What a session file is to a target. Of rows, one of each kind and version is enough.
fn parts(target: &str, file: &[u8], seen: &mut HashSet<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut lines = file.split(|&byte| byte == b'\n');
    let header = lines.next().unwrap_or_default();
    match target {
        "header" => vec![header.to_vec()],
        "row" => lines
            .filter(|line| seen.insert(kind(header, line)))
            .map(<[u8]>::to_vec)
            .collect(),
        "chain" | "salvage" => {
            // The same rows once more behind the byte that has them numbered anew (`files.rs` of the crate).
            let rows = &file[file.len().min(header.len() + 1)..];
            vec![file.to_vec(), [&[5 + version(header)], rows].concat()]
        }
        _ => vec![file.to_vec()],
    }
}

/// The version, and the row up to its first number.
fn kind(header: &[u8], line: &[u8]) -> Vec<u8> {
    let end = line.iter().position(u8::is_ascii_digit);
    [&[version(header)], &line[..end.unwrap_or(line.len())]].concat()
}

fn version(header: &[u8]) -> u8 {
    const MEMBER: &[u8] = br#""version":"#;
    let at = header.windows(MEMBER.len()).position(|part| part == MEMBER);
    let digit = at.and_then(|at| header.get(at + MEMBER.len()));
    digit.map_or(4, |digit| digit.wrapping_sub(b'0') % 5)
}

/// The files of those directories that are there.
fn all_files(directories: impl IntoIterator<Item = PathBuf>) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for directory in directories {
        if directory.is_dir() {
            all.extend(files(&directory)?);
        }
    }
    Ok(all)
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            files.push(entry?.path());
        }
        files.sort();
        Ok(files)
    };
    list().with_context(|| format!("list `{}`", directory.display()))
}

fn run_target(
    root: &Path,
    place: &Path,
    target: &str,
    program: &Path,
    minutes: u32,
) -> Result<Outcome> {
    let learned = place.join("corpus").join(target);
    let artifacts = root.join("fuzz/artifacts").join(target);
    for directory in [&learned, &artifacts] {
        fs::create_dir_all(directory)
            .with_context(|| format!("create `{}`", directory.display()))?;
    }
    let log = place.join(format!("{target}.log"));
    let output = new_log(&log).with_context(|| format!("create `{}`", log.display()))?;
    let status = Command::new(program)
        .arg(&learned)
        .arg(place.join("seeds").join(target))
        .arg(format!("-max_total_time={}", u64::from(minutes) * 60))
        .args(["-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1"])
        .arg(format!(
            "-dict={}",
            root.join("fuzz/session.dict").display()
        ))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .status()
        .with_context(|| format!("start `{}`", program.display()))?;
    let text = fs::read(&log).with_context(|| format!("read `{}`", log.display()))?;
    let outcome = Outcome::read(target, root, &String::from_utf8_lossy(&text));
    ensure!(
        status.success() || !outcome.findings.is_empty(),
        "`{}` failed ({status}) without a finding; see `{}`",
        program.display(),
        log.display()
    );
    Ok(outcome)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the log of the run before is not needed any more"
)]
fn new_log(path: &Path) -> std::io::Result<File> {
    File::create(path)
}

/// What a run came to, from what libFuzzer says on standard error.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    target: String,
    executions: u64,
    /// Edges that were reached.
    coverage: u64,
    /// Inputs that were worth keeping.
    corpus: u64,
    /// Relative to the root.
    findings: Vec<String>,
}

impl Outcome {
    const HEADING: &'static str = "target        executions  coverage  corpus  findings";

    fn read(target: &str, root: &Path, log: &str) -> Self {
        let mut outcome = Self {
            target: target.to_owned(),
            ..Self::default()
        };
        for line in log.lines() {
            if let Some((_, path)) = line.split_once("Test unit written to ") {
                let path = Path::new(path);
                let path = path.strip_prefix(root).unwrap_or(path);
                outcome.findings.push(path.display().to_string());
            }
            // A run that is stopped by a finding prints no sum.
            if let Some(number) = line.strip_prefix('#').and_then(leading_number) {
                outcome.executions = number;
            }
            let after = |label| line.split_once(label).map(|(_, rest)| rest);
            for (label, slot) in [
                ("number_of_executed_units: ", &mut outcome.executions),
                (" cov: ", &mut outcome.coverage),
                (" corp: ", &mut outcome.corpus),
            ] {
                if let Some(number) = after(label).and_then(leading_number) {
                    *slot = number;
                }
            }
        }
        outcome
    }
}

fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            target,
            executions,
            coverage,
            corpus,
            findings,
        } = self;
        let findings = findings.len();
        write!(
            f,
            "{target:<12} {executions:>11} {coverage:>9} {corpus:>7} {findings:>9}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn targets_are_all_or_those_that_are_named() {
        let all = names(&["chain", "row"]);
        assert_eq!(chosen(&all, &[]).ok(), Some(all.clone()));
        assert_eq!(chosen(&all, &names(&["row"])).ok(), Some(names(&["row"])));
        let error = chosen(&all, &names(&["rows"])).map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("there is no fuzz target `rows`\nhint: there are chain, row".to_owned())
        );
    }

    #[test]
    fn an_outcome_is_read_from_the_log() {
        let log = "\
INFO: Running with entropic power schedule (0xFF, 100).
#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 28Mb
#4096\tpulse  cov: 345 ft: 900 corp: 78/9Kb lim: 40 exec/s: 2048 rss: 40Mb
Done 5000 runs in 3 second(s)
stat::number_of_executed_units: 5000
stat::average_exec_per_sec:     1666
";
        let outcome = Outcome::read("row", Path::new("/r"), log);
        assert_eq!(
            outcome.to_string(),
            "row                 5000       345      78         0"
        );
        assert_eq!(outcome.to_string().len(), Outcome::HEADING.len());
    }

    #[test]
    fn a_finding_is_named_below_the_root() {
        let log = "\
#77\tNEW    cov: 345 ft: 900 corp: 78/9Kb lim: 40 exec/s: 2048 rss: 40Mb
thread '<unnamed>' panicked at fuzz/src/row.rs:1:1:
artifact_prefix='/r/fuzz/artifacts/row/'; Test unit written to /r/fuzz/artifacts/row/crash-1f
";
        let outcome = Outcome::read("row", Path::new("/r"), log);
        assert_eq!(outcome.findings, ["fuzz/artifacts/row/crash-1f"]);
        assert_eq!(outcome.executions, 77);
    }

    #[test]
    fn a_file_is_cut_up_as_a_target_wants_it() {
        let file = b"{\"type\":\"session\",\"version\":2}\n{\"type\":\"a\",\"seq\":0}\n{\"type\":\"a\",\"seq\":1}\n";
        let parts = |target| -> Vec<String> {
            parts(target, file, &mut HashSet::new())
                .into_iter()
                .map(|part| String::from_utf8_lossy(&part).into_owned())
                .collect()
        };
        let text = String::from_utf8_lossy(file);
        let (header, rows) = text.split_once('\n').expect("the test writes lines");
        assert_eq!(parts("header"), [header]);
        assert_eq!(parts("row"), ["{\"type\":\"a\",\"seq\":0}", ""]);
        assert_eq!(parts("chain"), [text.to_string(), format!("\u{7}{rows}")]);
        assert_eq!(parts("frames"), [text.to_string()]);
    }
}
