//! What can be said to the program instead of to the model.

use offshoot_session::{Seq, SessionId};

use crate::config::ModelName;

/// A line that begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slash {
    Help,
    Fork(Option<Seq>),
    Tree,
    Switch(SessionId),
    Side(Option<String>),
    Merge(Option<String>),
    Back,
    UndoTurn,
    Cost,
    Compact,
    Model(Option<ModelName>),
    Quit,
}

/// Each with what it takes and what it does.
const ALL: &[(&str, &str)] = &[
    (
        "/fork [SEQ]",
        "go on in a fork, at an event or at the last completed turn",
    ),
    (
        "/undo-turn",
        "go on in a fork from before the last turn; this one stays",
    ),
    (
        "/side [PROMPT]",
        "ask on the side: in a fork that explains and may only look",
    ),
    (
        "/merge [NOTE]",
        "bring a note, or the latest answer, from the side session back",
    ),
    ("/back", "return from the side session"),
    ("/tree", "this session and its relatives"),
    ("/switch ID", "go on in another session"),
    (
        "/model [PROVIDER/MODEL]",
        "which model is called, or call another",
    ),
    (
        "/compact",
        "replace the older part, as the model sees it, by a summary",
    ),
    ("/cost", "what this session has used"),
    ("/help", "this"),
    ("/quit", "end; so does Ctrl-D"),
];

/// All of them, a line each.
pub(super) fn help() -> String {
    let lines = ALL
        .iter()
        .map(|(usage, what)| format!("  {usage:<24} {what}\n"));
    let mut help: String = lines.collect();
    help.push_str("a line that ends in \\ goes on; Ctrl-C stops the model while it works\n");
    help
}

impl Slash {
    /// `None` if the line is for the model; an error if it is for nobody.
    pub(super) fn parse(line: &str) -> Option<Result<Self, String>> {
        let rest = line.strip_prefix('/')?;
        let (name, argument) = match rest.split_once(char::is_whitespace) {
            Some((name, argument)) => (name, argument.trim()),
            None => (rest.trim_end(), ""),
        };
        // A path is something to talk about.
        if name.contains('/') {
            return None;
        }
        Some(Self::named(name, argument))
    }

    fn named(name: &str, argument: &str) -> Result<Self, String> {
        let without = |slash: Self| match argument {
            "" => Ok(slash),
            _ => Err(format!("/{name} takes nothing else")),
        };
        match name {
            "help" => without(Self::Help),
            "tree" => without(Self::Tree),
            "undo-turn" => without(Self::UndoTurn),
            "cost" => without(Self::Cost),
            "compact" => without(Self::Compact),
            "quit" | "exit" => without(Self::Quit),
            "back" => without(Self::Back),
            "side" => Ok(Self::Side(text(argument))),
            "merge" => Ok(Self::Merge(text(argument))),
            "fork" if argument.is_empty() => Ok(Self::Fork(None)),
            "fork" => match argument.parse() {
                Ok(seq) => Ok(Self::Fork(Some(Seq::new(seq)))),
                Err(_) => Err(
                    "an event's seq is a whole number from 0 on, as `offshoot show` prints it"
                        .to_owned(),
                ),
            },
            "switch" if argument.is_empty() => {
                Err("/switch takes the id of a session; /tree shows some".to_owned())
            }
            "switch" => Ok(Self::Switch(SessionId::new(argument))),
            "model" if argument.is_empty() => Ok(Self::Model(None)),
            "model" => ModelName::parse(argument).map(|name| Self::Model(Some(name))),
            _ => Err(format!("there is no /{name}; /help lists what there is")),
        }
    }
}

fn text(argument: &str) -> Option<String> {
    (!argument.is_empty()).then(|| argument.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_slash_is_a_command_unless_it_is_a_path() {
        let cases = [
            ("hello", None),
            ("/etc/passwd has what?", None),
            ("/fork", Some(Ok(Slash::Fork(None)))),
            ("/fork 12", Some(Ok(Slash::Fork(Some(Seq::new(12)))))),
            (
                "/switch  a b ",
                Some(Ok(Slash::Switch(SessionId::new("a b")))),
            ),
            ("/side", Some(Ok(Slash::Side(None)))),
            (
                "/side  what is /etc?\nSay. ",
                Some(Ok(Slash::Side(Some("what is /etc?\nSay.".to_owned())))),
            ),
            (
                "/merge it is a dot",
                Some(Ok(Slash::Merge(Some("it is a dot".to_owned())))),
            ),
            (
                "/back to it",
                Some(Err("/back takes nothing else".to_owned())),
            ),
            ("/exit", Some(Ok(Slash::Quit))),
            (
                "/cost now",
                Some(Err("/cost takes nothing else".to_owned())),
            ),
            (
                "/nothing",
                Some(Err(
                    "there is no /nothing; /help lists what there is".to_owned()
                )),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(Slash::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn every_command_of_the_help_is_one() {
        for (usage, _) in ALL {
            let name = usage.split([' ', '[']).next().unwrap();
            let line = if usage.contains(" ID") {
                format!("{name} x")
            } else {
                name.to_owned()
            };
            assert!(matches!(Slash::parse(&line), Some(Ok(_))), "{usage}");
        }
    }
}
