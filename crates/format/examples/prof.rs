use offshoot_format::*;
use std::time::Instant;
fn main() {
    let p = std::env::args().nth(1).unwrap();
    let b = std::fs::read(&p).unwrap();
    let c = Container::detect(&b);
    for t in [Threads::One, Threads::Two] {
        let mut best = u128::MAX;
        for _ in 0..7 {
            let s = Instant::now();
            let d = decode_on(t, c, &b, &[]).unwrap();
            std::hint::black_box(&d);
            drop(d);
            best = best.min(s.elapsed().as_micros());
        }
        println!("{t:?} {best} us");
    }
    #[derive(serde::Deserialize)]
    struct E<'a> {
        #[serde(rename = "type", borrow)]
        kind: &'a str,
        #[serde(default)]
        seq: u64,
        #[serde(default)]
        time: i64,
        #[serde(borrow)]
        data: &'a serde_json::value::RawValue,
    }
    if c == Container::Raw {
        let mut best = u128::MAX;
        for _ in 0..7 {
            let s = Instant::now();
            let mut n = 0u64;
            for l in b.split(|&x| x == b'\n').skip(1).filter(|l| !l.is_empty()) {
                let e: E = serde_json::from_slice(l).unwrap();
                n += e.seq + e.time as u64 + (e.kind.len() + e.data.get().len()) as u64;
            }
            std::hint::black_box(n);
            best = best.min(s.elapsed().as_micros());
        }
        println!("envelope {best} us");
    }
}
