//! `offshoot models`: what can be called, and what the rest takes. Asks nobody: what a server has is not looked up.

use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::json;

use crate::config::{Config, KeyState, Provider};
use crate::failure::Failure;
use crate::home::Home;
use crate::money;
use crate::notes::Notes;
use crate::providers::Providers;

pub(crate) fn run(home: &Home, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let config = Config::here(home)?;
    let providers = Providers::of(&config, home)?;
    if json {
        let all: Vec<_> = providers.all().map(as_json).collect();
        let default = providers.choose(None).ok().map(|name| name.to_string());
        writeln!(out, "{}", json!({"default": default, "providers": all}))?;
        return Ok(());
    }
    config.warn(Notes::new(false));
    for provider in providers.all() {
        print(provider, out)?;
    }
    match providers.choose(None) {
        Ok(name) => writeln!(out, "\ncalled where nothing else is said: {name}")?,
        Err(failure) => {
            writeln!(out, "\ncalled where nothing else is said: none; {failure}")?;
            for hint in failure.hint.iter().flat_map(|hint| hint.lines()) {
                Notes::new(false).say(&format!("hint: {hint}"));
            }
        }
    }
    Ok(())
}

fn print(provider: &Provider, out: &mut dyn Write) -> Result<(), Failure> {
    let state = KeyState::of(provider);
    writeln!(
        out,
        "{}  ({} at {})  {}",
        provider.name,
        provider.kind.name(),
        provider.shown_url(),
        state.usability()
    )?;
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    for model in provider.models() {
        table.add_row([
            format!("  {}/{model}", provider.name),
            said_of(provider, model),
        ]);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn said_of(provider: &Provider, model: &str) -> String {
    let info = provider.info(model);
    let mut said = Vec::new();
    if let Some(tokens) = info.context_window {
        said.push(format!("{tokens} tokens"));
    }
    if info.images {
        said.push("images".to_owned());
    }
    if let Some(efforts) = info.efforts.filter(|efforts| !efforts.is_empty()) {
        said.push(format!("efforts {}", efforts.join(" ")));
    }
    if let Some(prices) = provider.prices(model) {
        said.push(format!(
            "USD {} in, {} out per million",
            money::in_dollars(prices.input),
            money::in_dollars(prices.output)
        ));
    }
    said.join(", ")
}

fn as_json(provider: &Provider) -> serde_json::Value {
    let state = KeyState::of(provider);
    let models: Vec<_> = provider
        .models()
        .map(|model| {
            let info = provider.info(model);
            let mut value =
                json!({"model": format!("{}/{model}", provider.name), "images": info.images});
            let prices = provider.prices(model).map(|prices| {
                let cached = |price: Option<u64>| money::in_dollars(price.unwrap_or(prices.input));
                json!({
                    "input": money::in_dollars(prices.input),
                    "output": money::in_dollars(prices.output),
                    "cache_read": cached(prices.cache_read),
                    "cache_write": cached(prices.cache_write),
                })
            });
            for (name, member) in [
                ("context_window", info.context_window.map(Into::into)),
                ("max_tokens", info.max_tokens.map(Into::into)),
                ("efforts", info.efforts.map(|efforts| json!(efforts))),
                ("effort", provider.effort(model).map(Into::into)),
                ("prices", prices),
            ] {
                if let Some(member) = member {
                    value[name] = member;
                }
            }
            value
        })
        .collect();
    let mut value = json!({
        "provider": provider.name,
        "kind": provider.kind.name(),
        "base_url": provider.shown_url(),
        "usable": state.is_usable(),
        "key": state,
        "models": models,
    });
    if let Some(failure) = state.refused() {
        value["code"] = failure.code.into();
        value["reason"] = failure.message.as_str().into();
        value["hint"] = json!(failure.hint);
    }
    value
}
