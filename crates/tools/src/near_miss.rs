//! Why a text that should be in a file is not found there: what a model most often gets wrong.

use similar::get_close_matches;

/// How many lines of the file are shown.
const MAX_SHOWN_LINES: usize = 20;
/// How much of one line is shown.
const MAX_SHOWN_CHARS: usize = 200;
/// A similar line is looked for among so many lines only: each is compared.
const MAX_COMPARED_LINES: usize = 5000;
/// Places are looked for only up to this product of the numbers of lines: looking takes that long at worst.
const MAX_COMPARISONS: usize = 25_000_000;
/// How much alike two lines must be to be called similar, from 0 to 1.
const SIMILAR: f32 = 0.6;

/// Says what is there instead of `wanted`, which does not occur in `content`, and what to do.
pub(crate) fn explain(content: &[u8], wanted: &str) -> String {
    let content = String::from_utf8_lossy(content);
    let file: Vec<&str> = content.lines().collect();
    let place = || {
        let comparisons = file.len().saturating_mul(wanted.lines().count());
        let places = (comparisons <= MAX_COMPARISONS).then_some(&file)?;
        spaced(places, wanted).or_else(|| begun(places, wanted))
    };
    numbered(&content, wanted)
        .or_else(|| escaped(&content, wanted))
        .or_else(|| unended(&content, wanted))
        .or_else(place)
        .or_else(|| alike(&file, wanted))
        .unwrap_or_else(|| {
            "Nothing in the file is like it: read the file and copy the text from there.".to_owned()
        })
}

/// The line numbers of `read` were copied too.
fn numbered(content: &str, wanted: &str) -> Option<String> {
    let without: Option<Vec<&str>> = wanted
        .lines()
        .map(|line| {
            let (number, text) = line.split_once(':')?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.strip_prefix(' ').unwrap_or(text))
        })
        .collect();
    let without = without?.join("\n");
    content.replace("\r\n", "\n").contains(&without).then(|| {
        "It has the line numbers in it that read puts before each line: leave them out.".to_owned()
    })
}

/// The JSON was escaped twice.
fn escaped(content: &str, wanted: &str) -> Option<String> {
    let plain = wanted
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\\"", "\"")
        .replace("\\\\", "\\");
    (plain != wanted && content.replace("\r\n", "\n").contains(&plain)).then(|| {
        "It would occur if its backslashes were not there: a line break or a quote was escaped twice.".to_owned()
    })
}

/// The last line of the file has no end.
fn unended(content: &str, wanted: &str) -> Option<String> {
    let without = wanted.strip_suffix('\n')?;
    content
        .replace("\r\n", "\n")
        .ends_with(without)
        .then(|| {
            "It would be the end of the file, but the last line there has no line break: leave out the one at the end."
                .to_owned()
        })
}

/// Only white space differs.
fn spaced(file: &[&str], wanted: &str) -> Option<String> {
    let wanted: Vec<String> = wanted.lines().map(squeezed).collect();
    let wanted = trimmed(&wanted, String::is_empty);
    if wanted.is_empty() {
        return None;
    }
    let lines: Vec<String> = file.iter().map(|line| squeezed(line)).collect();
    let at = lines
        .windows(wanted.len())
        .position(|lines| lines == wanted)?;
    let end = at + wanted.len();
    let places = if wanted.len() == 1 {
        format!("Line {end} differs")
    } else {
        format!("Lines {} to {end} differ", at + 1)
    };
    Some(format!(
        "{places} from it in white space only. The file has:\n{}",
        shown(&file[at..end])
    ))
}

/// The beginning is there, and then something else comes.
fn begun(file: &[&str], wanted: &str) -> Option<String> {
    let wanted: Vec<&str> = wanted.lines().collect();
    let wanted = trimmed(&wanted, |line| line.trim().is_empty());
    // One line, or a part of one, has no beginning that says anything.
    if wanted.len() < 2 {
        return None;
    }
    let squeeze = |lines: &[&str]| lines.iter().map(|line| squeezed(line)).collect::<Vec<_>>();
    let (lines, squeezed_wanted) = (squeeze(file), squeeze(wanted));
    let alike = |at: usize| {
        let pairs = lines[at..].iter().zip(&squeezed_wanted);
        pairs.take_while(|(a, b)| a == b).count()
    };
    let (at, same) = (0..file.len())
        .map(|at| (at, alike(at)))
        .max_by_key(|(at, same)| (*same, usize::MAX - at))?;
    // An opening brace alone is everywhere.
    let says_something = wanted[..same]
        .iter()
        .any(|line| line.chars().filter(|char| char.is_alphanumeric()).count() >= 3);
    if !says_something {
        return None;
    }
    let differs = at + same;
    let end = file.len().min(at + wanted.len().max(same + 1));
    let instead = match file.get(differs) {
        Some(_) => format!("line {} is different", differs + 1),
        None => "then the file ends".to_owned(),
    };
    Some(format!(
        "Its beginning is at line {}, but {instead}. The file has:\n{}",
        at + 1,
        shown(&file[at..end])
    ))
}

/// A line is similar to the first one that says anything.
fn alike(file: &[&str], wanted: &str) -> Option<String> {
    let first = wanted.lines().map(str::trim).find(|line| line.len() > 3)?;
    if file.len() > MAX_COMPARED_LINES || first.chars().count() > MAX_SHOWN_CHARS {
        return None;
    }
    let lines: Vec<&str> = file
        .iter()
        .map(|line| line.trim())
        .filter(|line| line.len() <= 4 * MAX_SHOWN_CHARS)
        .collect();
    let best = get_close_matches(first, &lines, 1, SIMILAR).pop()?;
    let at = file.iter().position(|line| line.trim() == best)?;
    Some(format!(
        "Line {} is the most similar:\n{}",
        at + 1,
        shown(&file[at..=at])
    ))
}

/// A line with every run of white space as one space, and none at its ends.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn trimmed<T>(lines: &[T], is_empty: impl Fn(&T) -> bool) -> &[T] {
    let start = lines.iter().take_while(|line| is_empty(line)).count();
    let lines = &lines[start..];
    let end = lines.iter().rev().take_while(|line| is_empty(line)).count();
    &lines[..lines.len() - end]
}

fn shown(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines.iter().take(MAX_SHOWN_LINES) {
        text.extend(line.chars().take(MAX_SHOWN_CHARS));
        text.push('\n');
    }
    if lines.len() > MAX_SHOWN_LINES {
        text.push_str(&format!(
            "[... {} more lines ...]\n",
            lines.len() - MAX_SHOWN_LINES
        ));
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "fn main() {\n    let first = 1;\n\tlet second = \"two\";\n    print(first);\n}";

    #[test]
    fn what_models_get_wrong_is_said() {
        let said: Vec<String> = [
            "2:     let first = 1;\n3: \tlet second = \"two\";",
            "let first = 1;\\n\\tlet second = \\\"two\\\";",
            "    print(first);\n}\n",
            "  let first = 1;\n  let second = \"two\";\n",
            "fn main() {\n    let first = 1;\n    let third = 3;\n",
            "    let frist = 1;",
            "class Nothing extends Everything",
            "print(first);\n}\n\nfn more() {",
        ]
        .into_iter()
        .map(|wanted| format!("{wanted:?}\n{}\n", explain(FILE.as_bytes(), wanted)))
        .collect();
        insta::assert_snapshot!(said.join("\n"));
    }

    #[test]
    fn long_places_are_shown_in_part() {
        let file: String = (0..100)
            .map(|n| format!("  word {n} {}\n", "x".repeat(1000)))
            .collect();
        let wanted: String = (0..90)
            .map(|n| format!("word {n} {}\n", "x".repeat(1000)))
            .collect();
        let said = explain(file.as_bytes(), &wanted);
        assert!(said.len() < 5000, "{}", said.len());
        assert!(
            said.starts_with("Lines 1 to 90 differ from it in white space only."),
            "{said}"
        );
        assert!(said.ends_with("\n[... 70 more lines ...]"), "{said}");
    }
}
