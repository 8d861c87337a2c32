//! Sessions that are valid because each event is made to fit the log so far.

use offshoot_session::{Body, Event, EventKind, EventLog, PendingCall, Seq};

use crate::choices::Choices;

/// Ids of calls and messages: plain ones, and such as look like what closers derive from them.
const CALL_IDS: [&str; 6] = ["c", "c-7", "forked-tool-result-c-1", "é\"\\", "-", "0"];
const MESSAGE_IDS: [&str; 3] = ["m", "interrupted-tool-result-c-0", "forked-tool-result-c-4"];

/// A log that grows by decisions.
pub(crate) struct Script {
    log: EventLog,
    /// The steps of the open turn so far.
    steps: u64,
    compaction: Option<Compaction>,
}

struct Compaction {
    id: String,
    turn: Option<u64>,
    /// The span that the summary stands for, and the summary itself.
    summary: Option<(Vec<Seq>, Seq)>,
    replaced: bool,
}

impl Script {
    /// Goes on with a log in which no turn and no compaction is open.
    pub(crate) fn new(log: EventLog) -> Self {
        Self {
            log,
            steps: 0,
            compaction: None,
        }
    }

    pub(crate) fn log(&self) -> &EventLog {
        &self.log
    }

    pub(crate) fn into_log(self) -> EventLog {
        self.log
    }

    /// Adds `count` events.
    pub(crate) fn run(&mut self, choices: &mut Choices<'_>, count: usize) {
        for _ in 0..count {
            if !self.act(choices) {
                self.row("feedback/record", r#"{"text":"-0 \ud83d"}"#, "");
            }
        }
    }

    /// Adds one event; or none, if what was decided on does not fit here.
    fn act(&mut self, choices: &mut Choices<'_>) -> bool {
        let open = self.log.open_tail();
        let (turn, step) = (open.turn(), open.step().map(|at| at.step));
        match (choices.below(16), turn, step) {
            (0 | 1, None, None) => self.start_turn(),
            (0..=2, Some(turn), None) => self.start_step(turn),
            (2..=4, Some(turn), Some(step)) => self.assistant(choices, turn, step),
            (5 | 6, Some(turn), Some(step)) => self.call(choices, turn, step),
            (7 | 8, Some(turn), Some(step)) => self.result(choices, turn, step),
            (9, Some(turn), Some(step)) => self.end_step(choices, turn, step),
            (9 | 10, Some(turn), None) => self.end_turn(turn),
            (10, Some(turn), Some(step)) => self.system(choices, turn, step),
            (11, Some(_), _) => {
                let header =
                    r#"{"header":{"config":{"provider":"p","model":"m"}},"reason":"series"}"#;
                self.row("request/header", header, "")
            }
            (12 | 13, turn, _) => self.compact(turn),
            (14, Some(_), _) => self.rewrite(choices),
            (15, None, _) => self.row("session/end-seed", "{}", ""),
            (15, ..) => self.row(
                "gadget/blinked",
                "[1e2,-0.0]",
                r#","ignorable":true,"surfaceOp":7"#,
            ),
            _ => self.user(choices),
        }
    }

    fn start_turn(&mut self) -> bool {
        if self.compaction.is_some() {
            return false;
        }
        self.steps = 0;
        let data = format!(r#"{{"turn":{}}}"#, self.log.last_turn() + 1);
        self.row("turn/start", &data, "")
    }

    fn end_turn(&mut self, turn: u64) -> bool {
        let data = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        self.compaction.is_none() && self.row("turn/end", &data, "")
    }

    fn start_step(&mut self, turn: u64) -> bool {
        self.steps += 1;
        let data = format!(r#"{{"turn":{turn},"step":{}}}"#, self.steps);
        self.row("step/start", &data, "")
    }

    /// Now and then a step ends with calls that have no result: such a log is kept, with a finding.
    fn end_step(&mut self, choices: &mut Choices<'_>, turn: u64, step: u64) -> bool {
        let data = format!(r#"{{"turn":{turn},"step":{step}}}"#);
        let may = self.log.open_tail().pending().is_empty() || choices.once_in(4);
        may && self.row("step/end", &data, "")
    }

    fn user(&mut self, choices: &mut Choices<'_>) -> bool {
        let data = format!(
            r#"{{"id":{},"role":"user","content":[{{"type":"text","text":"?"}}],"source":{{"kind":"user"}}}}"#,
            self.message_id(choices)
        );
        self.row("user/message", &data, APPEND)
    }

    fn system(&mut self, choices: &mut Choices<'_>, turn: u64, step: u64) -> bool {
        let surface = self.log.surface();
        if surface.head().is_some() && !surface.has_protected_head() {
            return false;
        }
        let data = format!(
            r#"{{"turn":{turn},"step":{step},"message":{{"id":{},"role":"system","source":{{"kind":"system-prompt"}},"content":[]}}}}"#,
            self.message_id(choices)
        );
        self.row("system/message", &data, APPEND)
    }

    fn assistant(&mut self, choices: &mut Choices<'_>, turn: u64, step: u64) -> bool {
        let mut ids: Vec<&str> = Vec::new();
        for _ in 0..choices.below(4) {
            let id = choices.of(&CALL_IDS);
            let pending = self.log.open_tail().pending();
            if !ids.contains(&id) && pending.iter().all(|call| &*call.id != id) {
                ids.push(id);
            }
        }
        let blocks: Vec<String> = ids
            .iter()
            .map(|id| {
                let id = quoted(id);
                format!(r#"{{"type":"tool-call","id":{id},"name":"look","arguments":"{{}}"}}"#)
            })
            .collect();
        let data = format!(
            r#"{{"turn":{turn},"step":{step},"message":{{"id":{},"role":"assistant","content":[{}],"source":{{"kind":"model","provider":"p","model":"m"}}}},"stream":[]}}"#,
            self.message_id(choices),
            blocks.join(",")
        );
        self.row("assistant/message", &data, APPEND)
    }

    fn pending(&self, started: bool) -> Vec<PendingCall> {
        let pending = self.log.open_tail().pending().iter();
        pending
            .filter(|call| call.started.is_some() == started)
            .cloned()
            .collect()
    }

    fn call(&mut self, choices: &mut Choices<'_>, turn: u64, step: u64) -> bool {
        let waiting = self.pending(false);
        if waiting.is_empty() {
            return false;
        }
        let id = quoted(&waiting[choices.below(waiting.len())].id);
        let data = format!(
            r#"{{"turn":{turn},"step":{step},"callId":{id},"name":"look","arguments":"{{}}"}}"#
        );
        self.row("tool/call", &data, "")
    }

    fn result(&mut self, choices: &mut Choices<'_>, turn: u64, step: u64) -> bool {
        let running = self.pending(true);
        if running.is_empty() {
            return false;
        }
        let call = &running[choices.below(running.len())];
        let (id, started) = (quoted(&call.id), call.started.unwrap_or(call.asked));
        let data = format!(
            r#"{{"turn":{turn},"step":{step},"message":{{"id":{},"role":"tool","toolCallId":{id},"source":{{"kind":"tool","callId":{id}}},"content":[]}}}}"#,
            self.message_id(choices)
        );
        self.row(
            "tool/result",
            &data,
            &format!(r#","sourceEventSeqs":[{started}],"surfaceOp":"append""#),
        )
    }

    /// Puts another result where one is, as the pruning of tool output does.
    fn rewrite(&mut self, choices: &mut Choices<'_>) -> bool {
        let results: Vec<(Seq, String)> = self
            .surface_events()
            .filter(|event| *event.kind() == EventKind::ToolResult)
            // A fork's result for a call that never started names the event that it was first.
            .filter(|event| !event.data().contains("TOOL_NOT_STARTED"))
            .map(|event| (event.seq(), event.data().to_owned()))
            .collect();
        if results.is_empty() {
            return false;
        }
        let (seq, data) = &results[choices.below(results.len())];
        let rest = format!(
            r#","sourceEventSeqs":[{seq}],"surfaceOp":{{"op":"replace","startSeq":{seq},"endSeq":{seq}}}"#
        );
        self.row("tool/result", data, &rest)
    }

    /// The next event of a compaction.
    fn compact(&mut self, turn: Option<u64>) -> bool {
        let Some(open) = self.compaction.take() else {
            return self.start_compaction(turn);
        };
        let named = turn.map_or_else(|| "null".to_owned(), |turn| turn.to_string());
        let id = open.id.clone();
        match &open.summary {
            None => {
                let head = self.log.surface().has_protected_head();
                let span: Vec<Seq> = self.log.surface().nodes().skip(usize::from(head)).collect();
                let (Some(start), Some(end)) = (span.first(), span.last()) else {
                    let data =
                        format!(r#"{{"compactionId":"{id}","turn":{named},"error":"none"}}"#);
                    return self.row("compaction/end", &data, "");
                };
                let data = format!(
                    r#"{{"compactionId":"{id}","summary":[],"shadowedRange":{{"start":{start},"end":{end}}},"shadowedSeqs":{},"shadowedTokenCount":1,"provider":"p","model":"m"}}"#,
                    list(&span)
                );
                let summary = self.log.end().seq();
                self.compaction = Some(Compaction {
                    summary: Some((span, summary)),
                    ..open
                });
                self.row("compaction/summary", &data, "")
            }
            Some((span, summary)) if !open.replaced && self.is_surface(span) => {
                let (start, end) = (span[0], span[span.len() - 1]);
                let data = format!(
                    r#"{{"id":"{id}","role":"user","content":[],"source":{{"kind":"compact-checkpoint","compactionId":"{id}"}}}}"#
                );
                let cited: Vec<Seq> = span.iter().copied().chain([*summary]).collect();
                let rest = format!(
                    r#","sourceEventSeqs":{},"surfaceOp":{{"op":"replace","startSeq":{start},"endSeq":{end}}}"#,
                    list(&cited)
                );
                self.compaction = Some(Compaction {
                    replaced: true,
                    ..open
                });
                self.row("user/message", &data, &rest)
            }
            Some(_) => {
                let data = format!(r#"{{"compactionId":"{id}","turn":{named}}}"#);
                debug_assert_eq!(turn, open.turn);
                self.row("compaction/end", &data, "")
            }
        }
    }

    fn start_compaction(&mut self, turn: Option<u64>) -> bool {
        let id = format!("k-{}", self.log.end());
        let named = turn.map_or_else(|| "null".to_owned(), |turn| turn.to_string());
        let data = format!(r#"{{"compactionId":"{id}","turn":{named}}}"#);
        self.compaction = Some(Compaction {
            id,
            turn,
            summary: None,
            replaced: false,
        });
        self.row("compaction/start", &data, "")
    }

    /// Whether the span is as it was when the summary was made.
    fn is_surface(&self, span: &[Seq]) -> bool {
        let slice = self.log.surface().slice(span[0], span[span.len() - 1]);
        slice.is_some_and(|slice| slice == span)
    }

    fn surface_events(&self) -> impl Iterator<Item = &Event> {
        let nodes = self.log.surface().nodes();
        nodes.filter_map(|seq| self.log.get(seq).map(|event| &**event))
    }

    fn message_id(&self, choices: &mut Choices<'_>) -> String {
        match choices.below(4) {
            0 => format!(r#""m-{}""#, self.log.end()),
            known => quoted(MESSAGE_IDS[known - 1]),
        }
    }

    fn row(&mut self, kind: &str, data: &str, rest: &str) -> bool {
        let seq = self.log.end();
        let row = format!(r#"{{"type":"{kind}","seq":{seq},"time":{seq},"data":{data}{rest}}}"#);
        let event = Event::from_row(row.as_str()).unwrap_or_else(|error| panic!("{error}: {row}"));
        if matches!(event.body(), Body::EndSeed { .. }) {
            self.compaction = None;
        }
        self.log
            .push(event)
            .unwrap_or_else(|error| panic!("{error}: {row}"));
        true
    }
}

const APPEND: &str = r#","surfaceOp":"append""#;

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn list(seqs: &[Seq]) -> String {
    let numbers: Vec<String> = seqs.iter().map(ToString::to_string).collect();
    format!("[{}]", numbers.join(","))
}
