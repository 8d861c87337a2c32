//! `offshoot config`: what is configured, and who said so.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use crate::args::{self, ConfigCommand};
use crate::config::{Config, Ignored, KeyState};
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::text::printable;

pub(crate) fn run(
    args: &args::Config,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match args.what {
        ConfigCommand::Show { origin } => show(home, origin, json, out),
        ConfigCommand::Path => paths(home, json, out),
    }
}

fn show(home: &Home, origin: bool, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let config = Config::here(home)?;
    let keys = KeyState::of_all(&config)?;
    if json {
        let settings: Vec<_> = config
            .shown()
            .map(|(key, value, origin)| {
                json!({"key": key.to_string(), "value": value, "origin": origin})
            })
            .collect();
        let value = json!({"settings": settings, "keys": keys, "ignored": ignored(&config)});
        writeln!(out, "{value}")?;
        return Ok(());
    }
    config.warn(Notes::new(false));
    for (key, value, said_by) in config.shown() {
        // As a configuration file has it.
        let comment = match origin {
            true => format!("  # {said_by}"),
            false => String::new(),
        };
        writeln!(out, "{}", printable(&format!("{key} = {value}{comment}")))?;
    }
    if !keys.is_empty() {
        writeln!(out)?;
    }
    for key in keys {
        writeln!(out, "# {key}")?;
    }
    Ok(())
}

fn ignored(config: &Config) -> Vec<serde_json::Value> {
    let ignored = config.ignored().iter();
    let shown = ignored.map(
        |Ignored {
             key,
             path,
             line,
             reason,
         }| json!({"key": key.to_string(), "path": path, "line": line, "reason": reason}),
    );
    shown.collect()
}

fn paths(home: &Home, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    // Also where a file cannot be understood: whoever wants to mend it has to know where it is.
    let start = std::env::current_dir().unwrap_or_default();
    let places = Config::places(home, &start);
    if json {
        let file = |path: &Path| json!({"path": path, "exists": path.exists()});
        let value = json!({
            "user": file(&places.user),
            "project": places.project.as_deref().map(file),
            "credentials": file(&places.credentials),
            "permissions": file(&places.permissions),
            "project_permissions": places.project_permissions.as_deref().map(file),
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    let absent = |path: &Path| if path.exists() { "" } else { "  (not there)" };
    for (name, path) in [
        ("user", Some(&places.user)),
        ("project", places.project.as_ref()),
        ("keys", Some(&places.credentials)),
        ("permissions", Some(&places.permissions)),
        ("project permissions", places.project_permissions.as_ref()),
    ] {
        match path {
            Some(path) => writeln!(out, "{name:<20} {}{}", path.display(), absent(path))?,
            None => writeln!(out, "{name:<20} none")?,
        }
    }
    Ok(())
}
