//! Forks of forks of forks.

use offshoot_format::Container;
use offshoot_session::{Seq, build_fork_seed};
use offshoot_store::Persistence as _;

use crate::linked::{branch_header, child, fork, home_with, read, turn_start};
use crate::support::{NOW, texts};

#[test]
fn a_long_chain_of_forks_has_few_bases_and_every_link_of_it_reads_back() {
    let home = home_with(&[3, 9, 11, 16]);
    let store = home.store(Container::Zstd);
    let mut parent = "demo".to_owned();
    let mut most = 0;
    for depth in 0..70 {
        let id = format!("deep-{depth}");
        let last = read(&store, &parent).len() as u64 - 1;
        let expected = fork(&store, &id, &parent, last);
        assert_eq!(read(&store, &id), expected, "{id}");
        most = most.max(branch_header(&home, &id).bases.len());
        // Each goes on for a while.
        drop(store.open(&id.as_str().into(), NOW).unwrap());
        let mut opened = store.open(&id.as_str().into(), NOW).unwrap();
        opened
            .writer
            .append(&[turn_start(opened.session.log())])
            .unwrap();
        drop(opened);
        drop(store.open(&id.as_str().into(), NOW).unwrap());
        parent = id;
    }
    assert_eq!(most, 16);
    let open = store.open(&parent.as_str().into(), NOW).unwrap();
    assert_eq!(open.writer.shareable().events(), open.session.log().end());
    let cut = Seq::new(40);
    let seed = build_fork_seed(open.session.log(), cut).unwrap();
    let header = child("from-the-middle", &parent);
    drop(
        store
            .fork(&header, &seed, &open.writer.shareable())
            .unwrap(),
    );
    assert_eq!(read(&store, "from-the-middle"), texts(seed.log().events()));
}
