//! What a shell command begins with.
//!
//! Two questions, each answered on its safe side. Whether a command *is* nothing but a call of a program is asked before
//! something is allowed: then every character must be understood, and whatever could start a second program, or could
//! stand for something else when it runs, is a no. Whether a command *contains* a call of a program is asked before something
//! is refused or asked about: then it is rather found once too often.

/// The words of a simple command, as a shell takes them apart; `None` if it is anything more than that: a list, a pipe, a
/// redirection, a substitution, a variable, several lines, or text whose quotes do not end.
///
/// Words are compared as they are: patterns (`*`) and `~` stand for files and stay.
pub(crate) fn simple_command(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(character) = rest.next() {
        match character {
            // The blanks of a shell, and no others: what it takes for a part of a word must not end one here.
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        '\0' => return None,
                        quoted => word.push(quoted),
                    }
                }
            }
            '"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            '\\' => match rest.next()? {
                '\n' | '\0' => return None,
                escaped => word.get_or_insert_default().push(escaped),
            },
            '\n' | '\0' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '$' | '`' | '#' => return None,
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

fn double_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match rest.next()? {
            '"' => return Some(()),
            '$' | '`' | '\0' => return None,
            '\\' => match rest.next()? {
                escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                '\n' | '\0' => return None,
                other => word.extend(['\\', other]),
            },
            plain => word.push(plain),
        }
    }
}

/// Whether these words stand one after the other anywhere in a command: behind operators, inside substitutions, quotes and
/// braces, or as arguments of another program. The first of them is also found at the end of a path.
///
/// Not found is what a shell only puts together when it runs, as in `$X -rf` or `$'\x72m'`.
pub(crate) fn mentions(command: &str, words: &[String]) -> bool {
    // A line that ends in a backslash goes on in the next.
    let joined = command.replace("\\\n", "");
    let quotes = ['\'', '"', '\\'];
    // A quote may be in the middle of a word, or around several.
    ["", " "].into_iter().any(|instead| {
        let wanted: Vec<String> = words
            .iter()
            .map(|word| word.replace(quotes, instead))
            .collect();
        let wanted: Vec<&str> = wanted.iter().flat_map(|word| plain_words(word)).collect();
        [command, &joined].into_iter().any(|command| {
            let command = command.replace(quotes, instead);
            let found: Vec<&str> = plain_words(&command).collect();
            // Words of which nothing is left could be anything.
            wanted.is_empty()
                || found
                    .windows(wanted.len())
                    .any(|found| begins_with(found, &wanted))
        })
    })
}

/// What stands between blanks and whatever means something to a shell.
fn plain_words(text: &str) -> impl Iterator<Item = &str> {
    let operators = |character: char| {
        character.is_whitespace() || character.is_control() || ";&|<>(){},$`=".contains(character)
    };
    text.split(operators).filter(|word| !word.is_empty())
}

fn begins_with(found: &[&str], words: &[&str]) -> bool {
    let same = |(at, (found, word)): (usize, (&&str, &&str))| {
        found == word || (at == 0 && found.rsplit('/').next() == Some(*word))
    };
    found.iter().zip(words).enumerate().all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &str) -> Option<Vec<String>> {
        simple_command(command)
    }

    #[test]
    fn a_simple_command_is_taken_apart_as_a_shell_does() {
        for (command, expected) in [
            ("git status", vec!["git", "status"]),
            ("  git\tstatus  -s ", vec!["git", "status", "-s"]),
            ("git 'status'", vec!["git", "status"]),
            (r#"g"i"t st\atus"#, vec!["git", "status"]),
            ("'git status'", vec!["git status"]),
            (r"git\ status", vec!["git status"]),
            (
                r#"git commit -m "a; b | c && d > e""#,
                vec!["git", "commit", "-m", "a; b | c && d > e"],
            ),
            (
                "git commit -m 'two\nlines $(x)'",
                vec!["git", "commit", "-m", "two\nlines $(x)"],
            ),
            (r#"echo "a \"b\" \$c \d""#, vec!["echo", r#"a "b" $c \d"#]),
            (r"echo a\;b \$x", vec!["echo", "a;b", "$x"]),
            (
                "git add *.rs ~/x {a,b}",
                vec!["git", "add", "*.rs", "~/x", "{a,b}"],
            ),
            ("echo ''", vec!["echo", ""]),
            ("git\u{a0}status", vec!["git\u{a0}status"]),
            ("git\rstatus", vec!["git\rstatus"]),
            ("", vec![]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(words(command), Some(expected), "{command:?}");
        }
    }

    #[test]
    fn whatever_could_run_something_else_is_no_simple_command() {
        for command in [
            "git status; rm -rf x",
            "git status;rm -rf x",
            "git status\nrm -rf x",
            "git status\r\nrm -rf x",
            "git status && rm x",
            "git status || rm x",
            "git status & rm x",
            "git status | sh",
            "git status |& sh",
            "git status > ~/.bashrc",
            "git status >> x",
            "git status < x",
            "git status 2>x",
            "git status <(rm x)",
            "git status $(rm x)",
            "git status `rm x`",
            "git status \"$(rm x)\"",
            "git status \"`rm x`\"",
            "git status \"\\\\$(rm x)\"",
            "git status $X",
            "git status ${X@P}",
            "git status $'\\n' rm",
            "git status $\"x\"",
            "git status \\\nx",
            "git status \"a\\\nb\"",
            "git status # rm",
            "(git status)",
            "git status 'x",
            "git status \"x",
            "git status \\",
            "git status\0rm",
            "git status '\0'",
            "git status \"\0\"",
        ] {
            assert_eq!(words(command), None, "{command:?}");
        }
    }

    #[test]
    fn a_call_is_found_wherever_it_hides() {
        let rm = ["rm".to_owned(), "-rf".to_owned()];
        for command in [
            "rm -rf x",
            "true; rm -rf x",
            "true && rm  -rf x",
            "true\nrm\t-rf x",
            "echo $(rm -rf x)",
            "echo `rm -rf x`",
            "bash -c 'rm -rf x'",
            "bash -c\"rm -rf x\"",
            "/bin/rm -rf x",
            "sudo rm -rf x",
            "A=b rm -rf x",
            "(rm -rf x)",
            "{ rm -rf x; }",
            "r\\m -rf x",
            "'rm' \"-rf\" x",
            "find . | xargs rm -rf",
            "r\\\nm -rf x",
            "rm \\\n -rf x",
            "rm -\\\nrf x",
            "{rm,-rf,x}",
        ] {
            assert!(mentions(command, &rm), "{command:?}");
        }
        for command in [
            "rm x",
            "rm -r -f x",
            "alarm -rf x",
            "rm; echo",
            "",
            "rm -rfx",
        ] {
            assert!(!mentions(command, &rm), "{command:?}");
        }
    }

    #[test]
    fn words_with_characters_that_mean_something_to_a_shell_are_found_as_well() {
        for (rule, command) in [
            ("dd of=/dev/sda", "sudo dd of=/dev/sda if=x"),
            ("dd of=/dev/sda", "dd 'of=/dev/sda'"),
            ("git commit -m 'a b'", "true; git commit -m \"a b\""),
            ("git commit -m 'a b'", "git commit -m a\\ b"),
            ("find . -exec rm {}", "find . -exec rm {} +"),
            ("cut -d, -f1", "cut -d, -f1 x"),
            ("echo \\$x", "echo '$x'"),
        ] {
            let rule = simple_command(rule).unwrap();
            assert!(mentions(command, &rule), "{rule:?} {command:?}");
            assert!(!mentions("true", &rule), "{rule:?}");
        }
    }
}
