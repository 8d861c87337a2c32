//! `sourceEventSeqs` and its packing: runs of three and more become `[start,end]` (`reference/persistence.md` §3.2).

use std::fmt::{self, Write as _};

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Seq;

enum Item {
    One(u64),
    Range([u64; 2]),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count or a range")
            }

            fn visit_u64<E>(self, seq: u64) -> Result<Item, E> {
                Ok(Item::One(seq))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Item, A::Error> {
                <[u64; 2]>::deserialize(SeqAccessDeserializer::new(list)).map(Item::Range)
            }
        }
        d.deserialize_any(Either)
    }
}

/// Reads the JSON text of a `sourceEventSeqs` member for the event numbered `of`.
///
/// # Errors
/// Anything but a list of distinct earlier events, as counts and `[start,end]` ranges; a list that has ranges must be
/// strictly increasing. An empty list is refused, too: only the oldest formats know one.
pub fn decode_sources(text: &str, of: Seq) -> Result<Box<[Seq]>, String> {
    let bad = |reason: String| format!("`sourceEventSeqs` {reason}");
    let items: Vec<Item> = serde_json::from_str(text)
        .map_err(|_| bad("must be a list of counts and [start,end] ranges".into()))?;
    let limit = of.get();
    let mut seqs = Vec::with_capacity(items.len());
    let mut has_range = false;
    for item in items {
        let (start, end) = match item {
            Item::One(seq) => (seq, seq),
            Item::Range([start, end]) if start <= end => {
                has_range = true;
                (start, end)
            }
            Item::Range([start, end]) => {
                return Err(bad(format!(
                    "has the range [{start},{end}], which runs backwards"
                )));
            }
        };
        // Checked before the range is expanded: its length must not be the sender's choice.
        if end >= limit {
            return Err(bad(format!(
                "names event {end}, which is not earlier than event {limit}"
            )));
        }
        if seqs.len() as u64 + (end - start) >= limit {
            return Err(bad("names an event twice".into()));
        }
        seqs.extend((start..=end).map(Seq::new));
    }
    if seqs.is_empty() {
        return Err(bad("must not be empty".into()));
    }
    if has_range && !is_increasing(&seqs) {
        return Err(bad(
            "has ranges and must therefore be strictly increasing".into()
        ));
    }
    if !is_increasing(&seqs) {
        let mut sorted = seqs.clone();
        sorted.sort_unstable();
        if !is_increasing(&sorted) {
            return Err(bad("names an event twice".into()));
        }
    }
    Ok(seqs.into())
}

/// Writes the list as the JSON text of a `sourceEventSeqs` member: runs of three and more become ranges.
pub fn encode_sources(seqs: &[Seq], out: &mut String) {
    let pack = is_increasing(seqs);
    out.push('[');
    let mut at = 0;
    while at < seqs.len() {
        let mut run = 1;
        while pack && at + run < seqs.len() && seqs[at + run].get() == seqs[at].get() + run as u64 {
            run += 1;
        }
        if at > 0 {
            out.push(',');
        }
        let written = if run >= 3 {
            at += run;
            write!(out, "[{},{}]", seqs[at - run], seqs[at - 1])
        } else {
            at += 1;
            write!(out, "{}", seqs[at - 1])
        };
        written.expect("BUG: writing to a string cannot fail");
    }
    out.push(']');
}

fn is_increasing(seqs: &[Seq]) -> bool {
    seqs.windows(2).all(|pair| pair[0] < pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(seqs: &[u64]) -> String {
        let seqs: Vec<Seq> = seqs.iter().copied().map(Seq::new).collect();
        let mut out = String::new();
        encode_sources(&seqs, &mut out);
        out
    }

    #[test]
    fn runs_of_three_become_ranges_and_unsorted_lists_stay_verbatim() {
        let cases: [(&[u64], &str); 5] = [
            (&[0, 1, 2], "[[0,2]]"),
            (&[0, 1], "[0,1]"),
            (&[0, 2, 3, 4], "[0,[2,4]]"),
            (&[3, 1, 2], "[3,1,2]"),
            (&[1, 2, 3, 5, 7, 8, 9], "[[1,3],5,[7,9]]"),
        ];
        for (seqs, text) in cases {
            assert_eq!(encoded(seqs), text);
            let back: Vec<u64> = decode_sources(text, Seq::new(99))
                .unwrap()
                .iter()
                .map(|seq| seq.get())
                .collect();
            assert_eq!(back, seqs);
        }
    }

    #[test]
    fn lists_that_no_writer_makes_are_refused_with_their_reason() {
        for (text, part) in [
            ("[]", "must not be empty"),
            ("[9]", "not earlier"),
            ("[[0,9]]", "not earlier"),
            ("[[3,1]]", "runs backwards"),
            ("[5,[0,2]]", "strictly increasing"),
            ("[1,1]", "twice"),
            ("[-0]", "must be a list"),
            ("[[1,2,3]]", "must be a list"),
            ("[[1]]", "must be a list"),
            ("[[[1,2]]]", "must be a list"),
            ("[1.0]", "must be a list"),
            ("[\"1\"]", "must be a list"),
            ("{}", "must be a list"),
            ("null", "must be a list"),
        ] {
            let error = decode_sources(text, Seq::new(9)).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(
            decode_sources("[[0,1]]", Seq::new(9)).is_ok(),
            "short ranges are read, never written"
        );
    }
}
