//! What a change did to a file, as a unified diff.

use std::path::Path;

use similar::{Algorithm, TextDiff};

/// The longest diff, in bytes, with the line that says that it was cut.
const MAX_BYTES: usize = 16 * 1024;
/// Lines that differ are compared with each other only up to this product of their numbers: comparing takes that long.
const MAX_COMPARISONS: usize = 25_000_000;
/// Lines around a change.
const CONTEXT: usize = 3;

/// The unified diff of two contents; empty if they are the same.
///
/// Bytes that are not UTF-8 are shown as U+FFFD. A diff that is too long ends in a line that says so.
pub(crate) fn unified(path: &Path, old: &[u8], new: &[u8]) -> String {
    if old == new {
        return String::new();
    }
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    if is_hard(&old, &new) {
        return format!(
            "[too different for a diff: {} lines were replaced by {}]\n",
            old.lines().count(),
            new.lines().count()
        );
    }
    let shown = path.display().to_string();
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .diff_lines(&*old, &*new);
    let text = diff
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&shown, &shown)
        .to_string();
    capped(text)
}

/// Whether so many lines differ that comparing them would take too long.
fn is_hard(old: &str, new: &str) -> bool {
    let mut old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut new: Vec<&str> = new.split_inclusive('\n').collect();
    let same_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    old.drain(..same_start);
    new.drain(..same_start);
    let same_end = old.iter().rev().zip(new.iter().rev());
    let same_end = same_end.take_while(|(a, b)| a == b).count();
    (old.len() - same_end).saturating_mul(new.len() - same_end) > MAX_COMPARISONS
}

fn capped(text: String) -> String {
    if text.len() <= MAX_BYTES {
        return text;
    }
    let mut shown = String::new();
    let mut lines = text.split_inclusive('\n');
    for line in lines.by_ref() {
        if shown.len() + line.len() > MAX_BYTES {
            break;
        }
        shown.push_str(line);
    }
    // The line that did not fit is the first of those that are left out.
    let left = lines.count() + 1;
    shown.push_str(&format!("[... {left} more lines of diff ...]\n"));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &str, new: &str) -> String {
        unified(Path::new("/w/a.txt"), old.as_bytes(), new.as_bytes())
    }

    #[test]
    fn a_change_is_shown_with_three_lines_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        insta::assert_snapshot!(diff(old, &old.replace('5', "five")), @r"
        --- /w/a.txt
        +++ /w/a.txt
        @@ -2,7 +2,7 @@
         2
         3
         4
        -5
        +five
         6
         7
         8
        ");
    }

    #[test]
    fn the_same_content_has_no_diff() {
        assert_eq!(diff("a\n", "a\n"), "");
    }

    #[test]
    fn a_missing_end_of_line_is_said() {
        insta::assert_snapshot!(diff("a", "a\n"), @r"
        --- /w/a.txt
        +++ /w/a.txt
        @@ -1 +1 @@
        -a
        \ No newline at end of file
        +a
        ");
    }

    #[test]
    fn a_long_diff_is_cut_at_a_line() {
        let new: String = (0..4000).map(|n| format!("line {n}\n")).collect();
        let shown = diff("", &new);
        assert!(shown.len() < MAX_BYTES + 50, "{}", shown.len());
        let (body, last) = shown.trim_end().rsplit_once('\n').unwrap();
        let shown_lines = body.lines().count() - 3;
        assert_eq!(
            last,
            format!("[... {} more lines of diff ...]", 4000 - shown_lines)
        );
    }

    #[test]
    fn contents_without_a_common_line_are_counted_instead() {
        let old: String = (0..6000).map(|n| format!("old {n}\n")).collect();
        let new: String = (0..5000).map(|n| format!("new {n}\n")).collect();
        assert_eq!(
            diff(&old, &new),
            "[too different for a diff: 6000 lines were replaced by 5000]\n"
        );
        // Where only the middle differs, it is the middle that counts.
        let new = old.replacen("old 3000\n", "new\n", 1);
        assert!(diff(&old, &new).contains("\n-old 3000\n+new\n"));
    }
}
