//! Rules about the values of members, and about several members at once.

use super::*;

#[track_caller]
fn accepted(kind: &str, payloads: impl IntoIterator<Item = Value>) {
    for data in payloads {
        assert_eq!(told(kind, &data), Ok(()), "{kind}: {data}");
    }
}

#[track_caller]
fn refused(kind: &str, payloads: impl IntoIterator<Item = (Value, &'static str)>) {
    for (data, expected) in payloads {
        assert_eq!(told(kind, &data), Err(expected.into()), "{kind}: {data}");
    }
}

#[test]
fn a_retry_is_limited_exactly_when_its_mode_is_normal() {
    let always = || without(with(retry(), "/mode", json!("always")), "/maxRetries");
    accepted(
        "llm/retry",
        [
            always(),
            with(retry(), "/maxRetries", json!(7)),
            with(retry(), "/delayMs", json!(0)),
            with(retry(), "/delayMs", json!(2_147_483_647)),
        ],
    );
    let normal = "`data` must have `maxRetries` from `retry` on, because its mode is normal";
    refused(
        "llm/retry",
        [
            (without(retry(), "/maxRetries"), normal),
            (with(retry(), "/retry", json!(2)), normal),
            (
                with(always(), "/maxRetries", json!(1)),
                "`data` has `maxRetries` although its mode is not normal",
            ),
            (
                with(retry(), "/delayMs", json!(2_147_483_648_u64)),
                "`data.delayMs` must be at most 2147483647",
            ),
            (
                with(retry(), "/delayMs", json!(-1)),
                "`data.delayMs` must be a finite number from 0 on, found -1",
            ),
            (
                with(retry(), "/retry", json!(0)),
                "`data.retry` must be a count from 1 on, found 0",
            ),
        ],
    );
}

#[test]
fn a_tool_result_is_one_block_that_answers_the_call_of_its_source() {
    let message = "/message/content";
    let own = json!({"name": "E", "code": "C", "reason": "r"});
    accepted(
        "tool/result",
        [without(
            without(result(), "/error"),
            "/message/content/0/isError",
        )],
    );
    refused(
        "tool/result",
        [
            (
                with(result(), message, json!([])),
                "`data.message.content` must be a list of exactly one, found []",
            ),
            (
                with(result(), message, json!([1, 2])),
                "`data.message.content` must be a list of exactly one, found [1,2]",
            ),
            (
                with(result(), message, json!([text()])),
                "`data.message.content` must be one `tool-result` block",
            ),
            (
                with(result(), "/message/source/callId", json!("d")),
                "`data.message` must name one call in `source.callId` and in `toolCallId` of its block",
            ),
            (
                with(result(), "/message/content/0/isError", json!(false)),
                "`data` has an `error`, but its block does not say `isError`",
            ),
            (
                without(result(), "/message/content/0/isError"),
                "`data` has an `error`, but its block does not say `isError`",
            ),
            (
                with(result(), "/error", own),
                r#"`data.error` has the member "reason", which V2 does not have"#,
            ),
        ],
    );
}

#[test]
fn the_defaults_of_an_adapter_are_in_the_configuration() {
    accepted(
        "request/header",
        [
            with(request(), "/header/adapterDefaults", json!({})),
            with(request(), "/header/tools", json!([])),
            json!({"header": {"config": {"provider": "p", "model": "m"}}, "reason": "series"}),
        ],
    );
    refused(
        "request/header",
        [
            (
                without(request(), "/header/config/maxTokens"),
                "`data.header` has `maxTokens` in `adapterDefaults`, but not in `config`",
            ),
            (
                without(request(), "/header/config/reasoningEffort"),
                "`data.header` has `reasoningEffort` in `adapterDefaults`, but not in `config`",
            ),
            (
                with(request(), "/header/adapterDefaults/maxTokens", json!(false)),
                "`data.header.adapterDefaults.maxTokens` may only be true, found false",
            ),
            (
                with(request(), "/reason", json!("fallback")),
                r#"`data.reason` must be one of ["initial", "resume", "change", "series"], found "fallback""#,
            ),
        ],
    );
}

#[test]
fn a_goal_says_why_it_is_blocked_exactly_when_it_is() {
    let active = || with(goal_change(), "/goal/phase", json!("active"));
    let of = |operation: &str| {
        let change = with(active(), "/operation", json!(operation));
        without(change, "/goal/blockedReason")
    };
    accepted(
        "goal/change",
        ["create", "edit", "pause", "resume", "complete", "block"].map(of),
    );
    let clear = json!({"kind": "goal/change", "version": 1, "operation": "clear",
        "cleared": {"id": "g", "revision": 1}, "clearedAt": 5});
    full(clear).holds("goal/change", Value::clone);
    let reason = "`data.goal` must have `blockedReason` exactly when it is blocked";
    refused(
        "goal/change",
        [
            (active(), reason),
            (without(goal_change(), "/goal/blockedReason"), reason),
            (
                with(goal_change(), "/goal/maxGoalRounds", json!(0)),
                "`data.goal.maxGoalRounds` must be a count from 1 on, found 0",
            ),
            (
                with(goal_change(), "/version", json!(2)),
                "`data.version` must be 1, found 2",
            ),
        ],
    );
}

#[test]
fn a_summary_that_was_streamed_keeps_what_was_said() {
    let bare = ["/llmStreamCall", "/rawOutput", "/maxTokens", "/usage"];
    accepted(
        "compaction/summary",
        [bare.into_iter().fold(summary(), without)],
    );
    refused(
        "compaction/summary",
        [
            (
                without(summary(), "/rawOutput"),
                "`data` has `llmStreamCall` without `rawOutput`",
            ),
            (
                with(summary(), "/shadowedSeqs", json!([])),
                "`data.shadowedSeqs` must be a list with something in it, found []",
            ),
        ],
    );
}

#[test]
fn every_kind_of_schedule_has_its_members() {
    let schedule_of = |plan: &Value| with(schedule(), "/schedule", plan.clone());
    let common = json!({"id": "s", "prompt": "p", "scheduledAt": "2026-01-31T23:59:59.000Z"});
    let of = |kind: &str| with(common.clone(), "/kind", json!(kind));
    full(of("at")).holds("schedule/change", schedule_of);
    full(with(of("after"), "/afterSeconds", json!(1))).holds("schedule/change", schedule_of);
    full(with(of("every"), "/everySeconds", json!(300))).holds("schedule/change", schedule_of);
    let delete = json!({"version": 1, "operation": "delete", "id": "s"});
    full(delete.clone()).holds("schedule/change", Value::clone);
    let dispatch = with(delete, "/operation", json!("dispatch"));
    full(with(
        dispatch,
        "/acceptedAt",
        json!("2026-01-31T23:59:59.000Z"),
    ))
    .absent(&["acceptedAt"])
    .holds("schedule/change", Value::clone);
    refused(
        "schedule/change",
        [(
            schedule_of(&with(of("every"), "/everySeconds", json!(299))),
            "`data.schedule.everySeconds` must be a count from 300 to 9007199254740991, found 299",
        )],
    );
}

#[test]
fn the_id_of_a_schedule_has_no_space_around_it() {
    let with_id = |id: &str| with(schedule(), "/schedule/id", json!(id));
    // JavaScript trims the byte order mark and does not trim the next-line control.
    accepted("schedule/change", ["s", "a b", "\u{85}s"].map(with_id));
    let trimmed = "`data.schedule.id` must not begin or end with white space";
    refused(
        "schedule/change",
        [" s", "s\n", "\u{feff}s", "s\u{a0}", "\u{2028}"].map(|id| (with_id(id), trimmed)),
    );
}

#[test]
fn an_instant_is_written_in_one_way_and_exists() {
    let at = |instant: &str| with(schedule(), "/schedule/scheduledAt", json!(instant));
    accepted(
        "schedule/change",
        [
            "2026-01-31T23:59:59.999Z",
            "2024-02-29T00:00:00.000Z",
            "2000-02-29T00:00:00.000Z",
            "0000-02-29T00:00:00.000Z",
            "9999-12-31T00:00:00.000Z",
        ]
        .map(at),
    );
    for instant in [
        "",
        "2026-01-31",
        "2026-01-31T23:59:59Z",
        "2026-01-31T23:59:59.000+00:00",
        "2026-01-31t23:59:59.000z",
        "+002026-01-31T23:59:59.000Z",
        "2026-00-01T00:00:00.000Z",
        "2026-13-01T00:00:00.000Z",
        "2026-01-00T00:00:00.000Z",
        "2026-04-31T00:00:00.000Z",
        "2026-02-29T00:00:00.000Z",
        "1900-02-29T00:00:00.000Z",
        "2026-01-31T24:00:00.000Z",
        "2026-01-31T23:60:00.000Z",
        "2026-01-31T23:59:60.000Z",
        "２026-01-31T23:59:59.000Z",
    ] {
        assert_eq!(
            told("schedule/change", &at(instant)),
            Err(format!(
                "`data.schedule.scheduledAt` must be an instant such as 2026-01-31T23:59:59.000Z, found \"{instant}\""
            ))
        );
    }
}

#[test]
fn a_descriptor_is_of_the_third_version_and_its_route_is_whole() {
    let one_shot = json!({"mode": "one-shot", "version": 3, "provider": "p", "label": "l"});
    full(one_shot.clone())
        .absent(&["label"])
        .holds("subagent/descriptor", Value::clone);
    let bare = without(without(descriptor(), "/agentProvider"), "/agentModel");
    accepted(
        "subagent/descriptor",
        [bare, with(descriptor(), "/toolFilter", json!({"deny": []}))],
    );
    let together = "`data` must have `agentProvider` and `agentModel` together";
    refused(
        "subagent/descriptor",
        [
            (
                with(one_shot, "/version", json!(2)),
                "`data.version` must be 3, found 2",
            ),
            (
                with(descriptor(), "/version", json!(4)),
                "`data.version` must be 3, found 4",
            ),
            (without(descriptor(), "/agentProvider"), together),
            (without(descriptor(), "/agentModel"), together),
            (
                with(descriptor(), "/toolFilter", json!({})),
                "`data` has a `toolFilter` that filters nothing",
            ),
        ],
    );
}

#[test]
fn a_policy_names_every_model_once() {
    let policy = |models: &[[&str; 2]]| {
        let models = models
            .iter()
            .map(|[provider, model]| json!({"model": model, "provider": provider}));
        json!({"allowedModels": models.collect::<Vec<_>>()})
    };
    let kind = "subagent/model-selection-policy";
    accepted(kind, [policy(&[["p", "m"], ["p", "n"], ["q", "m"]])]);
    refused(
        kind,
        [
            (
                policy(&[["p", "m"], ["q", "m"], ["p", "m"]]),
                r#"`data.allowedModels` has {"model":"m","provider":"p"} twice"#,
            ),
            (
                policy(&[]),
                "`data.allowedModels` must be a list with something in it, found []",
            ),
        ],
    );
}

#[test]
fn a_search_is_one_question_to_one_tool() {
    let request = json!({"endpoint": "e", "apiVersion": "v", "body": {"model": "m", "max_tokens": 1,
        "messages": [{"role": "user", "content": [text()]}],
        "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]}});
    refused(
        "web/deepseek-search-llm-request",
        [
            (
                with(request.clone(), "/body/messages", json!([])),
                "`data.body.messages` must be a list of exactly one, found []",
            ),
            (
                with(request.clone(), "/body/messages/0/content", json!([])),
                "`data.body.messages[0].content` must be a list of exactly one, found []",
            ),
            (
                with(request, "/body/tools/0/name", json!("search")),
                r#"`data.body.tools[0].name` must be one of ["web_search"], found "search""#,
            ),
        ],
    );
}

#[test]
fn titles_say_where_they_come_from() {
    let title = |source: &Value| json!({"title": "t", "messageSeqs": [0], "source": source});
    let route = json!({"provider": "p", "model": "m"});
    full(json!({"kind": "provider", "provider": "p", "model": route}))
        .absent(&["model"])
        .holds("session/title", title);
    full(json!({"kind": "fallback"})).holds("session/title", title);
    full(json!({"kind": "user"})).holds("session/title", title);
    assert!(told("session/title", &title(&json!({"kind": "oracle"}))).is_err());
}

#[test]
fn counts_are_safe_integers_and_numbers_are_finite() {
    let start = |turn: &str| {
        check(
            "turn/start",
            Node::new(&format!(r#"{{"turn":{turn}}}"#)),
            Version::V1,
        )
    };
    for turn in ["0", "1", "9007199254740991"] {
        assert_eq!(start(turn), Ok(()), "{turn}");
    }
    for turn in ["-0", "-1", "0.5", "9007199254740992", "null", "\"1\""] {
        let expected = format!("`data.turn` must be a count, found {turn}");
        assert_eq!(start(turn), Err(expected));
    }
    let took = |ms: &str| {
        let data = r#"{"turn":1,"point":"p","handlerId":"h","decision":"d","durationMs":@}"#;
        check(
            "hook/result",
            Node::new(&data.replace('@', ms)),
            Version::V1,
        )
    };
    for ms in ["0", "0.25", "1e3"] {
        assert_eq!(took(ms), Ok(()), "{ms}");
    }
    for ms in ["-0", "-0.0", "-1", "1e999", "null", "\"1\""] {
        let expected = format!("`data.durationMs` must be a finite number from 0 on, found {ms}");
        assert_eq!(took(ms), Err(expected));
    }
}

#[test]
fn a_status_and_a_pause_of_a_provider_are_within_their_bounds() {
    let end = |name: &str, value: Value| {
        let failure = with(failure(), &format!("/{name}"), value);
        json!({"turn": 1, "reason": {"kind": "error", "error": failure}})
    };
    accepted(
        "turn/end",
        [100, 599].map(|status| end("status", json!(status))),
    );
    refused(
        "turn/end",
        [
            (
                end("status", json!(99)),
                "`data.reason.error.status` must be a count from 100 to 599, found 99",
            ),
            (
                end("status", json!(600)),
                "`data.reason.error.status` must be a count from 100 to 599, found 600",
            ),
            (
                end("providerRetryAfterMs", json!(0)),
                "`data.reason.error.providerRetryAfterMs` must be a finite number above 0, found 0",
            ),
        ],
    );
}
