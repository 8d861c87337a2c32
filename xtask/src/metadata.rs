//! The part of `cargo metadata` that the checks read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cargo::Cargo;

/// All packages that a build for this platform with every feature may use, and how they depend on each other.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    workspace_root: PathBuf,
    workspace_members: Vec<String>,
    packages: Vec<Package>,
    resolve: Resolve,
}

/// A package, of the workspace or from elsewhere.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    manifest_path: PathBuf,
    /// As the manifest declares them, also those of other platforms and features.
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// A dependency as a manifest declares it.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<DependencyKind>,
    pub(crate) features: Vec<String>,
}

/// What a dependency is for, unless it is an ordinary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DependencyKind {
    Dev,
    Build,
}

/// Something that cargo builds from a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

/// A package in the resolved graph.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    id: String,
    deps: Vec<NodeDependency>,
    pub(crate) features: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct NodeDependency {
    pkg: String,
    dep_kinds: Vec<NodeDependencyKind>,
}

#[derive(Debug, Deserialize)]
struct NodeDependencyKind {
    kind: Option<DependencyKind>,
}

impl Metadata {
    /// Asks cargo. Only what this platform needs is looked at: with the others, cargo would have to download their
    /// crates first.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let platform = host_platform()?;
        let json = Cargo::new([
            "metadata",
            "--format-version=1",
            "--all-features",
            "--locked",
            "--filter-platform",
            &platform,
        ])
        .output(root)
        .context("read the crate graph; if Cargo.lock is out of date, `cargo check` renews it")?;
        Self::parse(&json)
    }

    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).context("understand what `cargo metadata` printed")
    }

    /// The packages of this repository.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.is_member(&package.id))
    }

    pub(crate) fn is_member(&self, id: &str) -> bool {
        self.workspace_members.iter().any(|member| member == id)
    }

    /// The folder name of the package of this repository that is called `name`.
    pub(crate) fn member_folder(&self, name: &str) -> Option<&str> {
        self.members()
            .find(|package| package.name == name)
            .map(Package::folder)
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter()
    }

    /// A path below the root as it is written in this repository: relative, with `/`.
    pub(crate) fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.workspace_root).unwrap_or(path);
        path.to_string_lossy().replace('\\', "/")
    }

    pub(crate) fn manifest(&self, package: &Package) -> String {
        self.relative(&package.manifest_path)
    }

    pub(crate) fn graph(&self) -> Graph<'_> {
        Graph {
            names: self
                .packages
                .iter()
                .map(|package| (package.id.as_str(), package.name.as_str()))
                .collect(),
            nodes: self
                .resolve
                .nodes
                .iter()
                .map(|node| (node.id.as_str(), node))
                .collect(),
        }
    }
}

impl Package {
    /// The name of the folder that the package lies in, which is what the documents call the crate.
    pub(crate) fn folder(&self) -> &str {
        self.manifest_path
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
            .unwrap_or(&self.name)
    }
}

impl Target {
    /// The root file, if this is an integration test.
    pub(crate) fn integration_test(&self) -> Option<&Path> {
        let is_test = self.kind.iter().any(|kind| kind == "test");
        is_test.then_some(self.src_path.as_path())
    }
}

/// The resolved graph, to be walked by package id.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    names: HashMap<&'a str, &'a str>,
    nodes: HashMap<&'a str, &'a Node>,
}

impl<'a> Graph<'a> {
    pub(crate) fn name(&self, id: &str) -> &'a str {
        self.names.get(id).copied().unwrap_or("?")
    }

    pub(crate) fn node(&self, id: &str) -> Option<&'a Node> {
        self.nodes.get(id).copied()
    }

    /// The ids of what a package needs at run time: no build scripts, no tests.
    pub(crate) fn run_time(&self, id: &str) -> impl Iterator<Item = &'a str> {
        let deps = self.node(id).map(|node| node.deps.as_slice());
        deps.unwrap_or_default()
            .iter()
            .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()))
            .map(|dep| dep.pkg.as_str())
    }
}

/// The name of the platform that this runs on.
pub(crate) fn host_platform() -> Result<String> {
    let output = Command::new("rustc")
        .args(["--print", "host-tuple"])
        .stderr(Stdio::inherit())
        .output()
        .context("start `rustc --print host-tuple`")?;
    ensure!(
        output.status.success(),
        "`rustc --print host-tuple` failed ({})",
        output.status
    );
    let platform = String::from_utf8(output.stdout).context("rustc names the platform in ASCII")?;
    Ok(platform.trim().to_owned())
}
