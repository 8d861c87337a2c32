#[path = "/tmp/v0.rs"]
mod v0;
use offshoot_format::*;
fn main() {
    let b = v0::generate(204_000);
    std::fs::write("/tmp/v0.jsonl", &b).unwrap();
    let d = decode(&b).unwrap();
    let mut o = Container::Raw.header(&d.header).unwrap();
    o.extend(Container::Raw.batch(d.log.events().map(|e| &**e)));
    std::fs::write("/tmp/v4.jsonl", &o).unwrap();
    println!("{} {} {}", b.len(), o.len(), d.log.end().get());
}
