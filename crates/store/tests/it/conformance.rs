//! Every backend runs the suite of what all stores do.

use std::collections::BTreeMap;

use offshoot_format::Container;
use offshoot_store::testing::Bed;
use offshoot_store::{JsonlStore, MemoryStore, Persistence};

use crate::support::{Home, all};

/// A home with files of one packing.
struct Files {
    home: Home,
    container: Container,
}

impl Files {
    fn new(container: Container) -> Self {
        Self {
            home: Home::new(),
            container,
        }
    }
}

/// A home that Offshoot created, where forks are linked to their source.
struct Linked(Files);

impl Linked {
    fn new() -> Self {
        Self(Files {
            home: Home::ours(),
            container: Container::Zstd,
        })
    }
}

impl Bed for Linked {
    fn store(&self) -> Box<dyn Persistence> {
        self.0.store()
    }

    fn image(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.image()
    }
}

impl Bed for Files {
    fn store(&self) -> Box<dyn Persistence> {
        Box::new(JsonlStore::new(self.home.root(), self.container))
    }

    fn image(&self) -> BTreeMap<String, Vec<u8>> {
        self.home.tree()
    }
}

#[derive(Default)]
struct InMemory(MemoryStore);

impl Bed for InMemory {
    fn store(&self) -> Box<dyn Persistence> {
        Box::new(self.0.clone())
    }

    fn image(&self) -> BTreeMap<String, Vec<u8>> {
        let listed = all(&self.0).into_iter();
        listed
            .map(|one| (one.id.to_string(), self.0.bytes(&one.id).unwrap()))
            .collect()
    }
}

mod jsonl_raw {
    offshoot_store::conformance!(super::Files::new(offshoot_format::Container::Raw));
}

mod jsonl_zstd {
    offshoot_store::conformance!(super::Files::new(offshoot_format::Container::Zstd));
}

mod linked {
    offshoot_store::conformance!(super::Linked::new());
}

mod in_memory {
    offshoot_store::conformance!(super::InMemory::default());
}

#[test]
#[should_panic(expected = "no behaviour is called `nothing`")]
fn a_behaviour_that_is_not_there_does_not_pass() {
    offshoot_store::testing::run("nothing", &InMemory::default());
}
