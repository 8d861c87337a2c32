//! Which crate may depend on what, checked against what cargo resolved.

use std::collections::{HashMap, HashSet, VecDeque};

use super::Problem;
use super::tree::{TextFile, Tree};
use crate::metadata::{Dependency, DependencyKind, Graph, Metadata, Package};

/// What a crate of this repository may use of the others, by folder names.
struct Layer {
    krate: &'static str,
    uses: &'static [&'static str],
    /// What its tests may use besides that and [`TEST_SUPPORT`].
    tests_use: &'static [&'static str],
}

/// The edges that exist by design. A new one is a decision: it changes this table and ARCHITECTURE.md together.
const LAYERS: &[Layer] = &[
    layer("session", &[], &[]),
    // Its tests show that what it reads can be sent.
    layer("format", &["session"], &["model"]),
    // Its tests run the suite that it offers to other stores, a feature of its own.
    layer("store", &["session", "format"], &["store"]),
    layer("model", &[], &[]),
    layer("tool-api", &[], &[]),
    layer(
        "agent",
        &["session", "store", "model", "tool-api"],
        &["tools", "format"],
    ),
    layer("tools", &["tool-api"], &[]),
    layer(
        "replay",
        &["session", "format", "store", "model", "agent"],
        &["tools", "tool-api"],
    ),
    layer(
        "cli",
        &[
            "session", "format", "store", "model", "tool-api", "agent", "tools", "replay",
        ],
        &[],
    ),
    layer(TEST_SUPPORT, &["model"], &[]),
    layer("fuzz", &["session", "format"], &[]),
    layer("xtask", &["session", "format", "store"], &[]),
];

/// The tests of every crate may use it, and nothing that is shipped.
const TEST_SUPPORT: &str = "test-support";

const fn layer(
    krate: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
) -> Layer {
    Layer {
        krate,
        uses,
        tests_use,
    }
}

/// External crates that some layers must do without, at run time.
struct Ban {
    external: &'static [&'static str],
    layers: Layers,
    reach: Reach,
    why: &'static str,
}

enum Layers {
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

#[derive(PartialEq, Eq)]
enum Reach {
    /// Also not by way of other external crates. Other crates of this repository answer for themselves.
    Transitive,
    /// What external crates do inside is their own affair.
    Direct,
}

const BANS: &[Ban] = &[
    Ban {
        external: &["tokio", "reqwest", "axum"],
        layers: Layers::Only(&["session", "format", "store"]),
        reach: Reach::Transitive,
        why: "the log and its storage are synchronous and know no network",
    },
    Ban {
        external: &["reqwest", "axum"],
        layers: Layers::Only(&["agent"]),
        reach: Reach::Transitive,
        why: "the driver knows no HTTP",
    },
    Ban {
        external: &["anyhow"],
        layers: Layers::AllBut(&["cli", "xtask"]),
        reach: Reach::Direct,
        why: "a library has typed errors",
    },
];

/// A feature that changes how every crate in the graph reads numbers, and breaks tagged enums.
const BANNED_JSON_FEATURE: &str = "arbitrary_precision";

pub(super) fn check(metadata: &Metadata, tree: &Tree) -> Vec<Problem> {
    let mut problems = edges(metadata, tree);
    problems.extend(bans(metadata, tree));
    problems.extend(json_feature(metadata, tree));
    problems
}

fn edges(metadata: &Metadata, tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in metadata.members() {
        let manifest = metadata.manifest(package);
        let Some(layer) = LAYERS.iter().find(|layer| layer.krate == package.folder()) else {
            problems.push(Problem::new(
                manifest,
                1,
                format!("the crate `{}` has no layer", package.folder()),
                "add it to LAYERS in xtask and to ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(used) = metadata.member_folder(&dependency.name) else {
                continue;
            };
            if !allowed(layer, used, dependency.kind) {
                problems.push(Problem::new(
                    &manifest,
                    declaration(tree, &manifest, &dependency.name),
                    format!(
                        "`{}` may not use `{used}`{}",
                        layer.krate,
                        in_tests(dependency)
                    ),
                    "move the code to where both may reach it, or decide to change LAYERS in xtask",
                ));
            }
        }
    }
    problems
}

fn allowed(layer: &Layer, used: &str, kind: Option<DependencyKind>) -> bool {
    let in_tests = kind == Some(DependencyKind::Dev);
    layer.uses.contains(&used)
        || (in_tests && (used == TEST_SUPPORT || layer.tests_use.contains(&used)))
}

fn in_tests(dependency: &Dependency) -> &'static str {
    match dependency.kind {
        Some(DependencyKind::Dev) => " in its tests",
        Some(DependencyKind::Build) => " in its build script",
        None => "",
    }
}

fn bans(metadata: &Metadata, tree: &Tree) -> Vec<Problem> {
    let graph = metadata.graph();
    let mut problems = Vec::new();
    for package in metadata.members() {
        let manifest = metadata.manifest(package);
        for ban in BANS.iter().filter(|ban| ban.applies_to(package.folder())) {
            for path in banned_paths(metadata, &graph, package, ban) {
                let direct = path.first().copied().unwrap_or_default();
                problems.push(Problem::new(
                    &manifest,
                    declaration(tree, &manifest, direct),
                    format!("`{}` depends on `{}`", package.folder(), path.join("` → `")),
                    format!("do without, {}", ban.why),
                ));
            }
        }
    }
    problems
}

impl Ban {
    fn applies_to(&self, folder: &str) -> bool {
        match self.layers {
            Layers::Only(layers) => layers.contains(&folder),
            Layers::AllBut(layers) => !layers.contains(&folder),
        }
    }
}

/// The names on the shortest way to each banned crate that `package` reaches, the banned one last.
fn banned_paths<'a>(
    metadata: &'a Metadata,
    graph: &Graph<'a>,
    package: &'a Package,
    ban: &Ban,
) -> Vec<Vec<&'a str>> {
    let mut paths = Vec::new();
    let mut came_from: HashMap<&str, &str> = HashMap::new();
    let mut seen = HashSet::from([package.id.as_str()]);
    let mut queue = VecDeque::from([package.id.as_str()]);
    while let Some(id) = queue.pop_front() {
        for used in graph.run_time(id) {
            if metadata.is_member(used) || !seen.insert(used) {
                continue;
            }
            came_from.insert(used, id);
            if ban.external.contains(&graph.name(used)) {
                paths.push(way_to(graph, &came_from, used));
            } else if ban.reach == Reach::Transitive {
                queue.push_back(used);
            }
        }
    }
    paths
}

fn way_to<'a>(graph: &Graph<'a>, came_from: &HashMap<&str, &str>, end: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut id = end;
    while let Some(before) = came_from.get(id) {
        names.push(graph.name(id));
        id = before;
    }
    names.reverse();
    names
}

fn json_feature(metadata: &Metadata, tree: &Tree) -> Vec<Problem> {
    let graph = metadata.graph();
    let is_on = metadata
        .packages()
        .filter(|package| package.name == "serde_json")
        .filter_map(|package| graph.node(&package.id))
        .any(|node| contains(&node.features, BANNED_JSON_FEATURE));
    if !is_on {
        return Vec::new();
    }
    let mut askers: Vec<&str> = metadata
        .packages()
        .filter(|package| package.dependencies.iter().any(asks_for_banned_feature))
        .map(|package| package.name.as_str())
        .collect();
    askers.sort_unstable();
    askers.dedup();
    let lock = "Cargo.lock";
    let line = line_of(tree, lock, |line| line == "name = \"serde_json\"");
    vec![Problem::new(
        lock,
        line,
        format!(
            "serde_json's `{BANNED_JSON_FEATURE}` is on, asked for by `{}`",
            askers.join("`, `")
        ),
        "drop what asks for it: numbers would no longer be read as the format says",
    )]
}

fn asks_for_banned_feature(dependency: &Dependency) -> bool {
    dependency.name == "serde_json" && contains(&dependency.features, BANNED_JSON_FEATURE)
}

fn contains(features: &[String], feature: &str) -> bool {
    features.iter().any(|on| on == feature)
}

/// The line of a manifest that declares a dependency.
fn declaration(tree: &Tree, manifest: &str, dependency: &str) -> usize {
    line_of(tree, manifest, |line| {
        let entry = line
            .strip_prefix(dependency)
            .is_some_and(|rest| rest.starts_with([' ', '=', '.']));
        let table = line
            .strip_suffix(']')
            .and_then(|line| line.strip_suffix(dependency))
            .is_some_and(|line| line.ends_with("dependencies."));
        entry || table
    })
}

fn line_of(tree: &Tree, path: &str, is_it: impl Fn(&str) -> bool) -> usize {
    tree.text(path)
        .into_iter()
        .flat_map(TextFile::lines)
        .find(|(_, line)| is_it(line))
        .map_or(1, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A package as cargo describes it; `from` is empty for one of this repository.
    fn package(id: &str, name: &str, folder: &str, dependencies: &Value) -> Value {
        json!({
            "id": id, "name": name, "manifest_path": format!("/r/{folder}/Cargo.toml"),
            "dependencies": dependencies, "targets": [],
        })
    }

    fn metadata(members: &Value, packages: &Value, nodes: &Value) -> Metadata {
        let json = json!({
            "workspace_root": "/r", "workspace_members": members, "packages": packages,
            "resolve": { "nodes": nodes },
        });
        Metadata::parse(json.to_string().as_bytes()).expect("the test writes what cargo writes")
    }

    fn node(id: &str, uses: &[(&str, Option<&str>)]) -> Value {
        let deps: Vec<Value> = uses
            .iter()
            .map(|(pkg, kind)| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] }))
            .collect();
        json!({ "id": id, "deps": deps, "features": [] })
    }

    fn shown(problems: Vec<Problem>) -> Vec<String> {
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn an_edge_against_the_layers_is_found_where_it_is_declared() {
        let metadata = metadata(
            &json!(["s", "f", "t", "n"]),
            &json!([
                package(
                    "s",
                    "offshoot-session",
                    "crates/session",
                    &json!([
                        { "name": "offshoot-format", "kind": null, "features": [] },
                        { "name": "offshoot-test-support", "kind": "dev", "features": [] },
                        { "name": "serde", "kind": null, "features": [] },
                    ])
                ),
                package(
                    "f",
                    "offshoot-format",
                    "crates/format",
                    &json!([
                        { "name": "offshoot-session", "kind": null, "features": [] },
                        { "name": "offshoot-test-support", "kind": null, "features": [] },
                    ])
                ),
                package(
                    "t",
                    "offshoot-test-support",
                    "crates/test-support",
                    &json!([])
                ),
                package("n", "offshoot-news", "crates/news", &json!([])),
            ]),
            &json!([]),
        );
        let tree = Tree::of(&[
            (
                "crates/session/Cargo.toml",
                "[dependencies]\nserde.workspace = true\noffshoot-format = { workspace = true }\n",
            ),
            (
                "crates/format/Cargo.toml",
                "[package]\n\n[dependencies.offshoot-test-support]\nworkspace = true\n",
            ),
        ]);
        let fix = "move the code to where both may reach it, or decide to change LAYERS in xtask";
        assert_eq!(
            shown(edges(&metadata, &tree)),
            [
                format!("crates/session/Cargo.toml:3: `session` may not use `format`; {fix}"),
                format!("crates/format/Cargo.toml:3: `format` may not use `test-support`; {fix}"),
                "crates/news/Cargo.toml:1: the crate `news` has no layer; \
                 add it to LAYERS in xtask and to ARCHITECTURE.md"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn only_the_agents_tests_reach_the_tools() {
        let agent = LAYERS
            .iter()
            .find(|layer| layer.krate == "agent")
            .expect("the agent has a layer");
        assert!(allowed(agent, "tools", Some(DependencyKind::Dev)));
        assert!(!allowed(agent, "tools", None));
        assert!(!allowed(agent, "tools", Some(DependencyKind::Build)));
        assert!(!allowed(agent, "cli", Some(DependencyKind::Dev)));
    }

    #[test]
    fn a_banned_crate_is_found_through_others_but_not_through_our_own_or_tests() {
        let none = json!([]);
        let metadata = metadata(
            &json!(["store", "agent", "model"]),
            &json!([
                package("store", "offshoot-store", "crates/store", &none),
                package("agent", "offshoot-agent", "crates/agent", &none),
                package("model", "offshoot-model", "crates/model", &none),
                package("q", "queue", "reg/queue", &none),
                package("t", "tokio", "reg/tokio", &none),
                package("a", "anyhow", "reg/anyhow", &none),
                package("h", "reqwest", "reg/reqwest", &none),
            ]),
            &json!([
                node("store", &[("q", None), ("h", Some("dev"))]),
                node("agent", &[("model", None), ("t", None), ("a", None)]),
                node("model", &[("h", None), ("q", None)]),
                node("q", &[("t", None), ("a", None), ("h", Some("build"))]),
                node("t", &[]),
                node("a", &[]),
                node("h", &[]),
            ]),
        );
        let tree = Tree::of(&[("crates/store/Cargo.toml", "[dependencies]\nqueue = \"1\"\n")]);
        assert_eq!(
            shown(bans(&metadata, &tree)),
            [
                "crates/store/Cargo.toml:2: `store` depends on `queue` → `tokio`; \
                 do without, the log and its storage are synchronous and know no network",
                "crates/agent/Cargo.toml:1: `agent` depends on `anyhow`; \
                 do without, a library has typed errors",
            ]
        );
    }

    #[test]
    fn the_json_feature_is_found_with_whoever_asks_for_it() {
        let asks = json!([{
            "name": "serde_json", "kind": null, "features": [BANNED_JSON_FEATURE],
        }]);
        let packages = json!([
            package("j", "serde_json", "reg/serde_json", &json!([])),
            package("m", "money", "reg/money", &asks),
        ]);
        let lock = Tree::of(&[("Cargo.lock", "[[package]]\nname = \"serde_json\"\n")]);
        let with = |features: &[&str]| {
            let nodes = json!([{ "id": "j", "deps": [], "features": features }]);
            shown(json_feature(
                &metadata(&json!([]), &packages, &nodes),
                &lock,
            ))
        };
        assert_eq!(with(&["std", "raw_value"]), [""; 0]);
        assert_eq!(
            with(&["std", BANNED_JSON_FEATURE]),
            [
                "Cargo.lock:2: serde_json's `arbitrary_precision` is on, asked for by `money`; \
              drop what asks for it: numbers would no longer be read as the format says"
            ]
        );
    }
}
