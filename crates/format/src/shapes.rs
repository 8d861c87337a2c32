//! The payloads that V0 to V2 were released with, member by member (`reference/persistence.md` §3.5–§3.7).
//!
//! These formats were frozen: a payload that has one member more or less than its type had is nothing that a released
//! program wrote, so nobody can say what it means in a later version. What is open by design stays open: free JSON, and the
//! kinds that plugins may add to (sources of messages, content blocks, reasons for the end of a turn).

mod conversation;
mod records;
mod sources;
#[cfg(test)]
mod tests;

use offshoot_session::MAX_SAFE_INTEGER;

use crate::json::Node;
use crate::version::Version;

/// What a piece of JSON must look like.
pub(crate) enum Shape {
    /// Any JSON.
    Any,
    /// 0 to 2^53 − 1.
    Count,
    /// 1 to 2^53 − 1.
    Positive,
    /// A count within these bounds.
    Within(u64, u64),
    /// A finite number.
    Number,
    /// A finite number from 0 on.
    NotNegative,
    /// A finite number above 0.
    AboveZero,
    Bool,
    /// The literal `true`.
    True,
    Null,
    Text,
    /// A string with something in it.
    NonEmpty,
    /// One of these strings.
    Word(&'static [&'static str]),
    /// This number.
    Is(u64),
    /// Any list.
    List(&'static Self),
    /// A list with something in it.
    Some(&'static Self),
    /// A list of exactly one.
    One(&'static Self),
    /// An object with exactly these members.
    Object(&'static [Field]),
    /// Any object.
    AnyObject,
    /// An object whose members follow from one of them.
    Tagged(&'static Union),
    /// The first or the second.
    Either(&'static Self, &'static Self),
    /// A shape, and a rule about more than one of its members.
    Also(&'static Self, fn(Node<'_>) -> Result<(), String>),
}

/// A member of an object.
pub(crate) struct Field {
    name: &'static str,
    optional: bool,
    shape: &'static Shape,
    /// The versions that have the member.
    since: Version,
    until: Version,
}

/// Objects that say by a member what they are.
pub(crate) struct Union {
    /// The member: `kind`, `type`, `operation`, …
    tag: &'static str,
    /// The other members of each case.
    cases: &'static [(&'static str, &'static [Field])],
    /// Whether any other name may be there, with any members.
    open: bool,
}

const fn required(name: &'static str, shape: &'static Shape) -> Field {
    Field {
        name,
        optional: false,
        shape,
        since: Version::V0,
        until: Version::V2,
    }
}

const fn optional(name: &'static str, shape: &'static Shape) -> Field {
    Field {
        name,
        optional: true,
        shape,
        since: Version::V0,
        until: Version::V2,
    }
}

/// A member that later versions than the first have.
const fn since(version: Version, field: Field) -> Field {
    Field {
        since: version,
        ..field
    }
}

/// A member that was given up.
const fn until(version: Version, field: Field) -> Field {
    Field {
        until: version,
        ..field
    }
}

/// Where a check has got to.
#[derive(Clone, Copy)]
struct At {
    version: Version,
    /// How many lists are around the place.
    lists: u8,
}

/// Only results of tools within results of tools can be in more lists than a few, and those do not get past V3 (§2.6): none
/// may take all of the stack first.
const MOST_LISTS: u8 = 8;

/// Where a payload does not have its shape, from the inside out, and what was expected there.
struct Mismatch {
    path: Vec<String>,
    reason: String,
}

impl Mismatch {
    fn within(mut self, step: String) -> Self {
        self.path.push(step);
        self
    }

    fn told(self) -> String {
        let path: String = self.path.into_iter().rev().collect();
        format!("`data{path}` {}", self.reason)
    }
}

/// Whether a payload is one that its type was released with. Types that nothing is known of have none.
///
/// # Errors
/// The member that is wrong, what was expected and what was found.
pub(crate) fn check(kind: &str, data: Node<'_>, version: Version) -> Result<(), String> {
    let mut payloads = conversation::PAYLOADS.iter().chain(records::PAYLOADS);
    match payloads.find(|(name, _)| *name == kind) {
        Some((_, shape)) => shape
            .check(data, At { version, lists: 0 })
            .map_err(Mismatch::told),
        None => Err("expected an event type that was released with this version".into()),
    }
}

impl Shape {
    fn check(&self, node: Node<'_>, at: At) -> Result<(), Mismatch> {
        let expected = |what: &str| Err(mismatch(node, what));
        let bounded = |low: u64, high: u64| node.count().is_some_and(|n| (low..=high).contains(&n));
        match self {
            Self::Any => Ok(()),
            Self::Count if bounded(0, MAX_SAFE_INTEGER) => Ok(()),
            Self::Count => expected("must be a count"),
            Self::Positive if bounded(1, MAX_SAFE_INTEGER) => Ok(()),
            Self::Positive => expected("must be a count from 1 on"),
            Self::Within(low, high) if bounded(*low, *high) => Ok(()),
            Self::Within(low, high) => expected(&format!("must be a count from {low} to {high}")),
            Self::Is(number) if bounded(*number, *number) => Ok(()),
            Self::Is(number) => expected(&format!("must be {number}")),
            Self::Number if finite(node).is_some() => Ok(()),
            Self::Number => expected("must be a finite number"),
            Self::NotNegative if finite(node).is_some_and(|n| n >= 0.0) => Ok(()),
            Self::NotNegative => expected("must be a finite number from 0 on"),
            Self::AboveZero if finite(node).is_some_and(|n| n > 0.0) => Ok(()),
            Self::AboveZero => expected("must be a finite number above 0"),
            Self::Bool if matches!(node.json(), "true" | "false") => Ok(()),
            Self::Bool => expected("must be true or false"),
            Self::True if node.json() == "true" => Ok(()),
            Self::True => expected("may only be true"),
            Self::Null if node.json() == "null" => Ok(()),
            Self::Null => expected("must be null"),
            Self::Text if node.is_string() => Ok(()),
            Self::Text => expected("must be a string"),
            Self::NonEmpty if node.is_string() && node.json() != r#""""# => Ok(()),
            Self::NonEmpty => expected("must be a string with something in it"),
            Self::Word(words) if words.iter().any(|word| node.is(word)) => Ok(()),
            Self::Word(words) => expected(&format!("must be one of {words:?}")),
            Self::AnyObject if node.is_object() => Ok(()),
            Self::AnyObject => expected("must be an object"),
            Self::List(item) => check_list(node, item, at),
            Self::Some(_) if node.is_array() && node.items().is_empty() => {
                expected("must be a list with something in it")
            }
            Self::Some(item) => check_list(node, item, at),
            Self::One(_) if node.is_array() && node.items().len() != 1 => {
                expected("must be a list of exactly one")
            }
            Self::One(item) => check_list(node, item, at),
            Self::Object(fields) => match node.members() {
                Some(members) => check_members(&members, None, fields, at),
                None => expected("must be an object"),
            },
            Self::Tagged(union) => union.check(node, at),
            Self::Either(first, second) => {
                first.check(node, at).or_else(|_| second.check(node, at))
            }
            Self::Also(shape, rule) => {
                shape.check(node, at)?;
                rule(node).map_err(|reason| Mismatch {
                    path: Vec::new(),
                    reason,
                })
            }
        }
    }
}

impl Union {
    fn check(&self, node: Node<'_>, at: At) -> Result<(), Mismatch> {
        let Some(members) = node.members() else {
            return Err(mismatch(node, "must be an object"));
        };
        let at_tag = |reason: Mismatch| reason.within(format!(".{}", self.tag));
        let mut tags = members.iter().rev();
        let Some((_, tag)) = tags.find(|(key, _)| Node::new(key).is(self.tag)) else {
            return Err(missing(self.tag));
        };
        let case = self.cases.iter().find(|(name, _)| tag.is(name));
        match case {
            Some((_, fields)) => check_members(&members, Some(self.tag), fields, at),
            None if self.open => Shape::NonEmpty.check(*tag, at).map_err(at_tag),
            None => {
                let names: Vec<&str> = self.cases.iter().map(|(name, _)| *name).collect();
                Err(at_tag(mismatch(*tag, &format!("must be one of {names:?}"))))
            }
        }
    }
}

/// The members must be `fields`, besides the one that was looked at before. Of several with one name the last counts.
fn check_members(
    members: &[(&str, Node<'_>)],
    tag: Option<&str>,
    fields: &[Field],
    at: At,
) -> Result<(), Mismatch> {
    let known = |field: &Field| (field.since..=field.until).contains(&at.version);
    // One bit for each field, of which no type has many.
    let mut found = 0_u64;
    for (place, (key, value)) in members.iter().enumerate() {
        let key = Node::new(key);
        let field = fields.iter().position(|field| key.is(field.name));
        match field.filter(|field| known(&fields[*field])) {
            Some(index) => {
                let Field { name, shape, .. } = &fields[index];
                found |= 1 << index;
                let repeated = || {
                    members[place + 1..]
                        .iter()
                        .any(|(key, _)| Node::new(key).is(name))
                };
                match shape.check(*value, at) {
                    Err(inner) if !repeated() => return Err(inner.within(format!(".{name}"))),
                    _ => {}
                }
            }
            None if tag.is_some_and(|tag| key.is(tag)) => {}
            None => {
                return Err(Mismatch {
                    path: Vec::new(),
                    reason: format!(
                        "has the member {}, which V{} does not have",
                        key.json(),
                        at.version.number()
                    ),
                });
            }
        }
    }
    let mut fields = fields.iter().enumerate();
    let absent =
        fields.find(|(index, field)| !field.optional && known(field) && found & (1 << index) == 0);
    absent.map_or(Ok(()), |(_, field)| Err(missing(field.name)))
}

fn check_list(node: Node<'_>, item: &Shape, at: At) -> Result<(), Mismatch> {
    if !node.is_array() {
        return Err(mismatch(node, "must be a list"));
    }
    let within = At {
        lists: at.lists + 1,
        ..at
    };
    if within.lists > MOST_LISTS {
        return Err(mismatch(node, "must not be as deep in lists of blocks"));
    }
    let mut items = node.items().into_iter().enumerate();
    items.try_for_each(|(index, node)| {
        item.check(node, within)
            .map_err(|inner| inner.within(format!("[{index}]")))
    })
}

fn finite(node: Node<'_>) -> Option<f64> {
    let text = node.json();
    let number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let number = text.parse::<f64>().ok().filter(|_| number)?;
    (number.is_finite() && !(number == 0.0 && number.is_sign_negative())).then_some(number)
}

fn missing(name: &str) -> Mismatch {
    Mismatch {
        path: Vec::new(),
        reason: format!("lacks the member `{name}`"),
    }
}

fn mismatch(node: Node<'_>, expected: &str) -> Mismatch {
    // Enough to recognise it by; a value may be as long as it likes.
    let text = node.json();
    let end = text.char_indices().nth(40).map_or(text.len(), |(at, _)| at);
    let more = if end < text.len() { "…" } else { "" };
    Mismatch {
        path: Vec::new(),
        reason: format!("{expected}, found {}{more}", &text[..end]),
    }
}
