//! What a provider says when the scenarios are recorded, and how their steps differ then.
//!
//! An answer that hangs or waits in a scenario comes to its end when it is recorded: the override says where it stops. So the
//! steps that wait for such a stop are left out.

use offshoot_test_support::Reply;
use serde_json::{Value, json};

/// How a scenario is recorded.
pub(super) struct Recorded {
    pub(super) name: &'static str,
    /// What is written in `scenario.toml`, and what is there in its place while it is recorded.
    pub(super) recording: &'static [(&'static str, &'static str)],
    /// What the provider answers.
    pub(super) replies: fn() -> Vec<Reply>,
}

/// One whose steps are recorded as they are.
fn as_it_is(name: &'static str, replies: fn() -> Vec<Reply>) -> Recorded {
    Recorded {
        name,
        recording: &[],
        replies,
    }
}

fn call(id: &str, tool: &str, arguments: &Value) -> Reply {
    calls([(id, tool, arguments.clone())])
}

fn calls<const N: usize>(calls: [(&str, &str, Value); N]) -> Reply {
    let calls = calls.map(|(id, tool, arguments)| (id, tool, arguments.to_string()));
    Reply::tool_calls(calls)
}

/// A command that runs until a file is there, or the workspace is there no more.
fn until(file: &str, started: &str) -> Value {
    let command = format!(
        "touch {started}; until [ -e {file} ] || ! [ -e {started} ]; do sleep 0.05; done; echo done"
    );
    json!({"command": command})
}

pub(super) fn text() -> Recorded {
    as_it_is("text", || {
        vec![
            Reply::reasoning_then_text("Nothing was listed.", "There are none that I know of."),
            Reply::text("None either."),
        ]
    })
}

pub(super) fn tools() -> Recorded {
    as_it_is("tools", || {
        vec![
            call("call-1", "read", &json!({"file_path": "notes.txt"})),
            call(
                "call-2",
                "edit",
                &json!({"file_path": "notes.txt", "old_string": "beat", "new_string": "beta"}),
            ),
            Reply::text_then_tool_calls(
                "Now it should be right.",
                [(
                    "call-3",
                    "bash",
                    json!({"command": "cat notes.txt"}).to_string(),
                )],
            ),
            Reply::text("The second line says beta now."),
        ]
    })
}

pub(super) fn parallel_tools() -> Recorded {
    as_it_is("parallel-tools", || {
        vec![
            calls([
                ("call-1", "read", json!({"file_path": "a.txt"})),
                ("call-2", "read", json!({"file_path": "b.txt"})),
                ("call-3", "read", json!({"file_path": "c.txt"})),
            ]),
            Reply::text("a.txt is the beginning of c.txt, and there is no b.txt."),
        ]
    })
}

pub(super) fn cancel() -> Recorded {
    Recorded {
        name: "cancel",
        recording: &[(
            "text = \"Count to ten.\"\nwait = false\n\n[[step]]\ndo = \"wait\"\nfile = \"counting\"\n\n[[step]]\ndo = \"cancel\"\n",
            "text = \"Count to ten.\"\n",
        )],
        replies: || {
            vec![
                Reply::text("One, two, three,"),
                calls([
                    ("call-1", "bash", until("never", "started")),
                    ("call-2", "bash", json!({"command": "echo second"})),
                ]),
                Reply::text("The first was stopped, and the second never began."),
            ]
        },
    }
}

pub(super) fn retry() -> Recorded {
    as_it_is("retry", || {
        vec![
            Reply::service_unavailable(),
            Reply::text("Yes."),
            Reply::invalid_request(),
            Reply::text("Something else."),
        ]
    })
}

pub(super) fn compaction() -> Recorded {
    as_it_is("compaction", || {
        vec![
            Reply::text("I have the notes of the first week in mind."),
            Reply::text("Noted."),
            Reply::text(
                "Harbour notes of May: the Meridian (Captain Ines Duarte) brought cork from Lisbon and has sailed on the ninth \
                 with tin. The Halcyon is not expected before the twentieth. The consul's box was fetched.",
            ),
            Reply::text("Tin."),
        ]
    })
}

pub(super) fn spawn() -> Recorded {
    as_it_is("spawn", || {
        let task = "Count the files in the working directory and answer with the number.";
        vec![
            call("call-2", "glob", &json!({"pattern": "*"})).asked(task),
            Reply::text("2").asked(task),
            call(
                "call-1",
                "delegate",
                &json!({"prompt": task, "label": "Count the files"}),
            ),
            Reply::text("There are two files."),
        ]
    })
}

pub(super) fn fork_subagent() -> Recorded {
    as_it_is("fork-subagent", || {
        let task = "What is the harbour master called?";
        vec![
            Reply::text("Ruiz.").asked(task),
            Reply::text("I will."),
            call(
                "call-1",
                "delegate",
                &json!({"prompt": task, "context": "conversation"}),
            ),
            Reply::text("The one I asked remembers: Ruiz."),
        ]
    })
}

pub(super) fn mixed_in_parallel() -> Recorded {
    Recorded {
        name: "mixed-in-parallel",
        recording: &[(
            "does not.\"\nwait = false\n\n[[step]]\ndo = \"wait\"\nfile = \"first-is-answering\"\n\n[[step]]\ndo = \"wait\"\nfile = \"second-is-answering\"\n\n[[step]]\ndo = \"write\"\npath = \"second-may-go-on\"\ntext = \"\"\n\n[[step]]\ndo = \"wait\"\nevent = \"turn/end\"\nsession = \"main.2\"\n\n[[step]]\ndo = \"write\"\npath = \"first-may-go-on\"\ntext = \"\"\n\n[[step]]\ndo = \"wait\"\nidle = true\n",
            "does not.\"\n",
        )],
        replies: || {
            let (knows, knows_not) = ("Say the code word.", "Say the code word, if you know it.");
            vec![
                Reply::text("I was told none.").asked(knows_not),
                Reply::text("Pelican.").asked(knows),
                Reply::text("Noted."),
                calls([
                    (
                        "call-1",
                        "delegate",
                        json!({"prompt": knows_not, "context": "fresh"}),
                    ),
                    (
                        "call-2",
                        "delegate",
                        json!({"prompt": knows, "context": "conversation"}),
                    ),
                ]),
                Reply::text("One said pelican, the other was told none."),
            ]
        },
    }
}

pub(super) fn fork_of_fork() -> Recorded {
    as_it_is("fork-of-fork", || {
        vec![
            Reply::text("Eight."),
            Reply::text("Sixteen."),
            Reply::text("Seventeen."),
            Reply::text("Four."),
        ]
    })
}

pub(super) fn side_merge() -> Recorded {
    as_it_is("side-merge", || {
        let aside = "Which file says what the licence is?";
        vec![
            Reply::text_then_tool_calls(
                "I will note it down.",
                [(
                    "call-3",
                    "write",
                    json!({"file_path": "licence.txt", "content": "COPYING"}).to_string(),
                )],
            )
            .asked(aside),
            Reply::text("COPYING, says README. I may not write it down here.").asked(aside),
            call("call-1", "read", &json!({"file_path": "README"})),
            Reply::text("A project with a licence."),
            call("call-2", "bash", &until("built", "building")),
            Reply::text("It is built; its licence is in COPYING."),
        ]
    })
}

pub(super) fn crash_resume() -> Recorded {
    Recorded {
        name: "crash-resume",
        recording: &[(
            "text = \"What became of it?\"\nwait = false\n\n[[step]]\ndo = \"wait\"\nfile = \"answering\"\n",
            "text = \"What became of it?\"\n",
        )],
        replies: || {
            vec![
                call("call-1", "bash", &until("never", "started")),
                Reply::text("Nobody knows:"),
                Reply::text("It may have run, or not. I would look before running it again."),
            ]
        },
    }
}

pub(super) fn fork_mid_turn() -> Recorded {
    as_it_is("fork-mid-turn", || {
        let asked = "What was running?";
        vec![
            Reply::text("A slow command; what became of it is not known here.").asked(asked),
            call("call-1", "bash", &until("done", "started")),
            Reply::text("It is done."),
        ]
    })
}
