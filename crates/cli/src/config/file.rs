//! From the text of a configuration file to its settings, each with the line that it stands on.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::schema::{self, Key, Shape};
use super::setting::{KeyPath, Value};
use crate::failure::Failure;

/// What to know about the format.
const HINT: &str = "docs/cli.md describes this file, in \"config.toml\"";
/// The same for whoever may have meant to write a key into it.
const SECRET_HINT: &str = "keys are not kept in this file: api_key_env names the variable that holds one, api_key_file a file; \
                           docs/cli.md describes both";

/// A setting as it stands in a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) path: KeyPath,
    pub(crate) value: Value,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// Reads a file. What is wrong is said with its place, and never with a value: it may be a key that somebody put into
/// the wrong file.
pub(crate) fn read(text: &str) -> Result<Vec<Read>, Failure> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        let message = error.message().trim().replace('\n', "; ");
        broken(text, at, &message, HINT)
    })?;
    let mut reader = Reader {
        text,
        settings: Vec::new(),
    };
    reader.table(&KeyPath::default(), table.get_ref(), schema::ROOT)?;
    // As a person sees them, whatever order the parser has.
    reader.settings.sort_by_key(|read| read.line);
    Ok(reader.settings)
}

struct Reader<'a> {
    text: &'a str,
    settings: Vec<Read>,
}

impl Reader<'_> {
    fn table(&mut self, at: &KeyPath, table: &DeTable<'_>, keys: &[Key]) -> Result<(), Failure> {
        for (name, value) in table {
            let Some(key) = keys.iter().find(|key| key.name == name.get_ref()) else {
                return Err(self.unknown(name, at, keys));
            };
            let path = at.child(key.name);
            match (key.shape, value.get_ref()) {
                (Shape::Table(keys), DeValue::Table(table)) => self.table(&path, table, keys)?,
                (Shape::Named(keys), DeValue::Table(tables)) => {
                    self.named(&path, tables, keys)?;
                }
                (shape, found) => {
                    let Some(read) = scalar(shape, found) else {
                        return Err(self.mistaken(&path, value, shape));
                    };
                    self.push(path, read, name.span().start);
                }
            }
        }
        Ok(())
    }

    fn named(
        &mut self,
        at: &KeyPath,
        tables: &DeTable<'_>,
        keys: &'static [Key],
    ) -> Result<(), Failure> {
        for (name, value) in tables {
            let path = at.child(name.get_ref());
            let DeValue::Table(table) = value.get_ref() else {
                return Err(self.mistaken(&path, value, Shape::Table(keys)));
            };
            self.push(path.clone(), Value::Opened, name.span().start);
            self.table(&path, table, keys)?;
        }
        Ok(())
    }

    fn push(&mut self, path: KeyPath, value: Value, offset: usize) {
        let line = place(self.text, offset).0;
        self.settings.push(Read { path, value, line });
    }

    fn unknown(
        &self,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        at: &KeyPath,
        keys: &[Key],
    ) -> Failure {
        let written = name.get_ref();
        let path = at.child(written);
        let message = match schema::nearest(keys, written) {
            Some(meant) => format!("unknown key `{path}`, did you mean `{meant}`?"),
            None => {
                let names: Vec<String> = keys.iter().map(|key| format!("`{}`", key.name)).collect();
                format!("unknown key `{path}`, expected one of {}", names.join(", "))
            }
        };
        let secret = ["key", "token", "secret", "password"];
        let hint = match secret.iter().any(|word| written.contains(word)) {
            true => SECRET_HINT,
            false => HINT,
        };
        broken(self.text, name.span().start, &message, hint)
    }

    fn mistaken(&self, path: &KeyPath, value: &Spanned<DeValue<'_>>, shape: Shape) -> Failure {
        let start = value.span().start;
        let expected = shape.expected();
        match shape {
            Shape::Model => {
                let (line, column) = place(self.text, start);
                let message = format!("line {line}, column {column}: `{path}`: {expected}");
                Failure::new("INVALID_MODEL", message)
                    .hint("`offshoot models` lists those that can be called")
            }
            _ => broken(
                self.text,
                start,
                &format!("`{path}`: expected {expected}"),
                HINT,
            ),
        }
    }
}

fn scalar(shape: Shape, value: &DeValue<'_>) -> Option<Value> {
    match (shape, value) {
        (Shape::Text | Shape::Model | Shape::Choice(_), DeValue::String(text)) => shape.parse(text),
        (Shape::Switch, DeValue::Boolean(on)) => Some(Value::Switch(*on)),
        (Shape::Count | Shape::Whole | Shape::Amount, DeValue::Integer(number)) => {
            let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
            shape.parse(&number.to_string())
        }
        (Shape::Amount, DeValue::Float(number)) => shape.parse(number.as_str()),
        (Shape::Names | Shape::Paths, DeValue::Array(names)) => {
            let names = names.iter().map(|name| {
                let name = name.get_ref().as_str()?;
                let fits = !matches!(shape, Shape::Paths) || Path::new(name).is_absolute();
                fits.then(|| name.to_owned())
            });
            Some(Value::List(names.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

fn broken(text: &str, offset: usize, message: &str, hint: &str) -> Failure {
    let (line, column) = place(text, offset);
    Failure::new(
        "INVALID_CONFIG",
        format!("line {line}, column {column}: {message}"),
    )
    .hint(hint)
}

/// Line and column of a place, both counted from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}
