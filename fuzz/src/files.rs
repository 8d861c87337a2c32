//! Files out of bytes that a fuzzer made.

use std::borrow::Cow;

/// Bytes as a file. What begins like a file is one as it is; otherwise the first byte says which header to put ahead of
/// the rest, and whether the rows are numbered anew, so that lines which were moved or repeated still make a dense log.
pub(crate) fn file(bytes: &[u8]) -> Cow<'_, [u8]> {
    match bytes.split_first() {
        None | Some((b'{' | 0x28, _)) => Cow::Borrowed(bytes),
        Some((&mode, rows)) => {
            let (version, mode) = (mode % 5, mode / 5);
            let mut file = header(version, mode & 2 != 0).into_bytes();
            file.push(b'\n');
            if mode & 1 == 0 {
                file.extend_from_slice(rows);
            } else {
                renumber(rows, &mut file);
            }
            Cow::Owned(file)
        }
    }
}

/// The header line of a session of any version, without its line feed.
pub(crate) fn header(version: u8, seeded: bool) -> String {
    let seed = match (version, seeded) {
        (0 | 1, true) => r#""seedLength":3,"#.to_owned(),
        (0 | 1, false) => String::new(),
        _ => format!(r#""isSeeded":{seeded},"#),
    };
    format!(
        r#"{{"type":"session","version":{version},"id":"fuzz","createdAt":1,"parentSession":"up",{seed}"delegationDepth":0}}"#
    )
}

/// The rows with the seqs that they should have, as far as they look like rows.
pub(crate) fn renumber(rows: &[u8], out: &mut Vec<u8>) {
    let mut seq = 0;
    for line in rows.split_inclusive(|&byte| byte == b'\n') {
        let numbered = [&br#""seq":"#[..], br#""seq0":"#]
            .iter()
            .find_map(|member| find(line, member).map(|at| at + member.len()));
        let Some(at) = numbered else {
            out.extend_from_slice(line);
            continue;
        };
        let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
        out.extend_from_slice(&line[..at]);
        out.extend_from_slice(u64::to_string(&seq).as_bytes());
        out.extend_from_slice(&line[at + digits.count()..]);
        seq += members(line);
    }
}

/// How many seqs a row consumes: a packed one has a time difference less than it has members.
fn members(line: &[u8]) -> u64 {
    const DIFFERENCES: &[u8] = br#""dt":["#;
    let Some(at) = find(line, br#"-chunks","#).and(find(line, DIFFERENCES)) else {
        return 1;
    };
    let list = &line[at + DIFFERENCES.len()..];
    match list.iter().position(|&byte| byte == b']') {
        None | Some(0) => 1,
        Some(end) => 2 + list[..end].iter().filter(|&&byte| byte == b',').count() as u64,
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renumbered(rows: &str) -> String {
        let mut out = Vec::new();
        renumber(rows.as_bytes(), &mut out);
        String::from_utf8(out).expect("the test writes UTF-8")
    }

    #[test]
    fn rows_are_numbered_from_0_and_packed_ones_by_their_members() {
        let rows = concat!(
            r#"{"type":"turn/start","seq":7,"time":1}"#,
            "\n",
            r#"{"type":"text-chunks","seq0":1,"dt":[],"texts":["a"]}"#,
            "\n\n",
            r#"{"type":"text-chunks","seq0":1,"dt":[3,-1],"texts":["a","b","c"]}"#,
            "\nno row\n",
            r#"{"type":"turn/end","seq":7,"time":1}"#,
        );
        let seqs = concat!(
            r#"{"type":"turn/start","seq":0,"time":1}"#,
            "\n",
            r#"{"type":"text-chunks","seq0":1,"dt":[],"texts":["a"]}"#,
            "\n\n",
            r#"{"type":"text-chunks","seq0":2,"dt":[3,-1],"texts":["a","b","c"]}"#,
            "\nno row\n",
            r#"{"type":"turn/end","seq":5,"time":1}"#,
        );
        assert_eq!(renumbered(rows), seqs);
    }

    #[test]
    fn every_header_is_one() {
        for version in 0..5 {
            for seeded in [false, true] {
                let line = header(version, seeded);
                let stored = offshoot_format::StoredHeader::read(&line).expect("it is a header");
                assert_eq!(stored.version(), u64::from(version));
                assert_eq!(stored.header().is_seeded, seeded);
            }
        }
    }
}
