//! What is filled in and what is refused before anything is sent.

use offshoot_model::{
    AdapterDefaults, CallConfig, MessagesDialect, ModelInfo, ModelSettings, PreparedCall, Protocol,
    ProviderKind, Route,
};

fn config(model: &str) -> CallConfig {
    CallConfig {
        provider: "p".into(),
        model: model.into(),
        ..CallConfig::default()
    }
}

fn route(kind: ProviderKind) -> Route<'static> {
    Route {
        kind,
        protocol: kind.protocol(),
        settings: None,
    }
}

fn prepared(kind: ProviderKind, config: &CallConfig) -> PreparedCall {
    route(kind).prepare(config).unwrap()
}

fn refusal(kind: ProviderKind, config: &CallConfig) -> (String, String) {
    let failure = route(kind).prepare(config).unwrap_err();
    (failure.code, failure.message)
}

fn effort(model: &str, effort: &str) -> CallConfig {
    CallConfig {
        reasoning_effort: Some(effort.into()),
        ..config(model)
    }
}

#[test]
fn a_known_model_gets_its_defaults_and_they_are_marked() {
    let call = prepared(ProviderKind::Anthropic, &config("claude-opus-4-6"));
    assert_eq!(
        (call.config, call.adapter_defaults, call.info),
        (
            CallConfig {
                max_tokens: Some(32_000),
                ..effort("claude-opus-4-6", "high")
            },
            AdapterDefaults {
                reasoning_effort: true,
                max_tokens: true,
            },
            ModelInfo {
                context_window: Some(1_000_000),
                max_tokens: Some(32_000),
                images: true,
                efforts: Some(&["off", "low", "medium", "high", "xhigh", "max"]),
                ..ModelInfo::default()
            },
        )
    );
    let call = prepared(ProviderKind::DeepSeek, &config("deepseek-v4-pro"));
    assert_eq!(
        (
            call.config.reasoning_effort.as_deref(),
            call.config.max_tokens
        ),
        (Some("high"), Some(256_000))
    );
}

#[test]
fn what_was_asked_for_stays_and_is_not_marked() {
    let asked = CallConfig {
        max_tokens: Some(9_000),
        ..effort("claude-opus-4-5", "off")
    };
    let call = prepared(ProviderKind::Anthropic, &asked);
    assert_eq!(
        (call.config, call.adapter_defaults),
        (asked, AdapterDefaults::default())
    );
}

#[test]
fn nothing_is_made_up_about_a_model_that_nobody_knows() {
    for kind in [
        ProviderKind::Compatible,
        ProviderKind::Ollama,
        ProviderKind::OpenAi,
    ] {
        let call = prepared(kind, &effort("home-made-7b", "whatever"));
        assert_eq!(
            call,
            PreparedCall::plain(effort("home-made-7b", "whatever")),
            "{kind:?}"
        );
    }
    // Messages cannot do without a limit.
    let call = prepared(ProviderKind::Anthropic, &config("claude-next"));
    assert_eq!(call.config.max_tokens, Some(32_000));
    assert_eq!(call.config.reasoning_effort, None);
    assert_eq!(call.info.context_window, None);
}

#[test]
fn configuration_goes_before_what_is_generally_known() {
    let settings = ModelSettings {
        context_window: Some(1_000),
        max_tokens: Some(5_000),
        images: Some(false),
        reasoning_effort: Some("low".into()),
    };
    let route = Route {
        settings: Some(&settings),
        ..route(ProviderKind::Anthropic)
    };
    let call = route.prepare(&config("claude-opus-4-5")).unwrap();
    assert_eq!(
        (
            call.info.context_window,
            call.info.max_tokens,
            call.info.images
        ),
        (Some(1_000), Some(5_000), false)
    );
    assert_eq!(
        (
            call.config.reasoning_effort.as_deref(),
            call.config.max_tokens
        ),
        (Some("low"), Some(5_000))
    );
}

#[test]
fn settings_that_cannot_be_are_refused_as_such() {
    let refused = |settings: ModelSettings| {
        let route = Route {
            settings: Some(&settings),
            ..route(ProviderKind::DeepSeek)
        };
        let failure = route.prepare(&config("any")).unwrap_err();
        (failure.code, failure.message)
    };
    let nothing = ModelSettings::default;
    assert_eq!(
        refused(ModelSettings {
            context_window: Some(0),
            ..nothing()
        }),
        (
            "INVALID_MODEL_CONTEXT".into(),
            "the context window that is configured for the model `any` is 0".into()
        )
    );
    assert_eq!(
        refused(ModelSettings {
            max_tokens: Some(0),
            ..nothing()
        })
        .0,
        "INVALID_MODEL_MAX_TOKENS"
    );
    assert_eq!(
        refused(ModelSettings {
            reasoning_effort: Some("medium".into()),
            ..nothing()
        }),
        (
            "INVALID_MODEL_REASONING".into(),
            "the model `any` has no reasoning effort `medium`; it has off, low, high, max".into()
        )
    );
}

#[test]
fn editions_of_a_model_are_known_and_other_versions_are_not() {
    let window = |kind, model: &str| route(kind).info(model).context_window;
    let claude = |model| window(ProviderKind::Anthropic, model);
    assert_eq!(claude("claude-sonnet-4-20250514"), Some(200_000));
    assert_eq!(claude("claude-sonnet-4-6@20260101"), Some(1_000_000));
    assert_eq!(claude("claude-sonnet-4-8"), None);
    assert_eq!(window(ProviderKind::OpenAi, "gpt-5-mini"), Some(400_000));
    assert_eq!(window(ProviderKind::OpenAi, "gpt-5.9"), None);
    let routed = |model| window(ProviderKind::OpenRouter, model);
    assert_eq!(routed("anthropic/claude-opus-4.6:beta"), Some(1_000_000));
    assert_eq!(routed("someone/claude-opus-4.6"), None);
}

#[test]
fn an_effort_that_the_model_does_not_have_is_refused_with_those_that_it_has() {
    let refused = |kind, model: &str| refusal(kind, &effort(model, "extreme"));
    let code = || "UNSUPPORTED_REASONING_EFFORT".to_owned();
    assert_eq!(
        refused(ProviderKind::DeepSeek, "any"),
        (
            code(),
            "the model `any` has no reasoning effort `extreme`; it has off, low, high, max".into()
        )
    );
    assert_eq!(
        refused(ProviderKind::OpenAi, "gpt-4.1"),
        (
            code(),
            "the model `gpt-4.1` has no reasoning efforts, so it cannot have `extreme`".into()
        )
    );
    for (kind, model) in [
        (ProviderKind::Anthropic, "claude-3-5-haiku"),
        (ProviderKind::OpenRouter, "any"),
        (ProviderKind::OpenAi, "gpt-5.1"),
    ] {
        assert_eq!(refused(kind, model).0, code(), "{model}");
    }
}

#[test]
fn what_messages_does_not_take_together_is_refused() {
    let short = CallConfig {
        max_tokens: Some(2_000),
        ..effort("claude-opus-4-5", "low")
    };
    assert_eq!(
        refusal(ProviderKind::Anthropic, &short),
        (
            "UNSUPPORTED_OPTION".into(),
            "the model `claude-opus-4-5` cannot think within 2000 tokens: allow at least 2048, or set the reasoning effort `off`".into()
        )
    );
    let hot = CallConfig {
        temperature: Some(0.5),
        ..effort("claude-opus-4-6", "low")
    };
    assert_eq!(
        refusal(ProviderKind::Anthropic, &hot).0,
        "UNSUPPORTED_OPTION"
    );
    let hotter = CallConfig {
        temperature: Some(1.5),
        ..effort("claude-opus-4-6", "off")
    };
    assert_eq!(
        refusal(ProviderKind::Anthropic, &hotter).0,
        "UNSUPPORTED_OPTION"
    );
    assert!(
        route(ProviderKind::OpenAi)
            .prepare(&hotter_of("gpt-4.1"))
            .is_ok()
    );
}

fn hotter_of(model: &str) -> CallConfig {
    CallConfig {
        temperature: Some(1.5),
        ..config(model)
    }
}

#[test]
fn a_default_never_makes_a_call_impossible() {
    let cool = CallConfig {
        temperature: Some(0.5),
        ..config("claude-opus-4-6")
    };
    let call = prepared(ProviderKind::Anthropic, &cool);
    assert_eq!(call.config.reasoning_effort, None);
    assert_eq!(call.config.temperature, Some(0.5));
}

#[test]
fn another_makers_messages_have_its_efforts() {
    let route = Route {
        protocol: Protocol::Messages(MessagesDialect::deepseek()),
        ..route(ProviderKind::DeepSeek)
    };
    let call = route.prepare(&config("deepseek-v4-flash")).unwrap();
    assert_eq!(call.config.reasoning_effort.as_deref(), Some("high"));
    assert_eq!(call.info.efforts, Some(&["off", "low", "high", "max"][..]));
}

#[test]
fn every_kind_is_found_by_its_name() {
    for kind in ProviderKind::ALL {
        assert_eq!(ProviderKind::parse(kind.name()), Some(kind));
    }
    assert_eq!(ProviderKind::parse("nobody"), None);
    let table: Vec<_> = ProviderKind::ALL
        .into_iter()
        .map(|kind| (kind.name(), kind.base_url(), kind.key_variable()))
        .collect();
    assert_eq!(
        table,
        [
            (
                "anthropic",
                Some("https://api.anthropic.com/v1"),
                Some("ANTHROPIC_API_KEY")
            ),
            (
                "deepseek",
                Some("https://api.deepseek.com"),
                Some("DEEPSEEK_API_KEY")
            ),
            (
                "openai",
                Some("https://api.openai.com/v1"),
                Some("OPENAI_API_KEY")
            ),
            (
                "openrouter",
                Some("https://openrouter.ai/api/v1"),
                Some("OPENROUTER_API_KEY")
            ),
            ("ollama", Some("http://127.0.0.1:11434/v1"), None),
            ("vllm", Some("http://127.0.0.1:8000/v1"), None),
            ("llama-cpp", Some("http://127.0.0.1:8080/v1"), None),
            ("compatible", None, None),
        ]
    );
}
