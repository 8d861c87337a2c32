//! The payloads that V0 to V2 were released with, member by member (`reference/persistence.md` §3.5–§3.7).
//!
//! These formats were frozen: a payload that has one member more or less than its type had is nothing that a released
//! program wrote, so nobody can say what it means in a later version. What is open by design stays open: free JSON, and the
//! kinds that plugins may add to (sources of messages, content blocks, reasons for the end of a turn).

mod conversation;
mod records;

use offshoot_session::MAX_SAFE_INTEGER;

use crate::json::Node;

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
    List(&'static Shape),
    /// A list with something in it.
    Some(&'static Shape),
    /// An object with exactly these members.
    Object(&'static [Field]),
    /// Any object.
    AnyObject,
    /// An object whose members follow from one of them.
    Tagged(&'static Union),
    /// The first or the second.
    Either(&'static Shape, &'static Shape),
    /// A shape, and a rule about more than one of its members.
    Also(&'static Shape, fn(Node<'_>) -> Result<(), String>),
}

/// A member of an object.
pub(crate) struct Field {
    name: &'static str,
    optional: bool,
    shape: &'static Shape,
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
    }
}

const fn optional(name: &'static str, shape: &'static Shape) -> Field {
    Field {
        name,
        optional: true,
        shape,
    }
}

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
pub(crate) fn check(kind: &str, data: Node<'_>) -> Result<(), String> {
    let mut payloads = conversation::PAYLOADS.iter().chain(records::PAYLOADS);
    match payloads.find(|(name, _)| *name == kind) {
        Some((_, shape)) => shape.check(data).map_err(Mismatch::told),
        None => Err("expected an event type that was released with this version".into()),
    }
}

impl Shape {
    fn check(&self, node: Node<'_>) -> Result<(), Mismatch> {
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
            Self::List(item) => check_list(node, item, false),
            Self::Some(item) => check_list(node, item, true),
            Self::Object(fields) => check_members(node, &[], fields),
            Self::Tagged(union) => union.check(node),
            Self::Either(first, second) => first.check(node).or_else(|_| second.check(node)),
            Self::Also(shape, rule) => {
                shape.check(node)?;
                rule(node).map_err(|reason| Mismatch {
                    path: Vec::new(),
                    reason,
                })
            }
        }
    }
}

impl Union {
    fn check(&self, node: Node<'_>) -> Result<(), Mismatch> {
        if !node.is_object() {
            return Err(mismatch(node, "must be an object"));
        }
        let at_tag = |reason: Mismatch| reason.within(format!(".{}", self.tag));
        let Some(tag) = node.get(self.tag) else {
            return Err(missing(self.tag));
        };
        let case = self.cases.iter().find(|(name, _)| tag.is(name));
        match case {
            Some((_, fields)) => check_members(node, &[self.tag], fields),
            None if self.open => Shape::NonEmpty.check(tag).map_err(at_tag),
            None => {
                let names: Vec<&str> = self.cases.iter().map(|(name, _)| *name).collect();
                Err(at_tag(mismatch(tag, &format!("must be one of {names:?}"))))
            }
        }
    }
}

/// The members must be `fields`, besides those that were looked at before.
fn check_members(node: Node<'_>, before: &[&str], fields: &[Field]) -> Result<(), Mismatch> {
    let Some(members) = node.members() else {
        return Err(mismatch(node, "must be an object"));
    };
    let mut found = 0;
    for (key, value) in &members {
        let key = Node::new(key);
        if let Some(field) = fields.iter().find(|field| key.is(field.name)) {
            let step = || format!(".{}", field.name);
            field
                .shape
                .check(*value)
                .map_err(|inner| inner.within(step()))?;
            found += u64::from(!field.optional);
        } else if !before.iter().any(|name| key.is(name)) {
            return Err(Mismatch {
                path: Vec::new(),
                reason: format!("has the member {}, which it never had", key.json()),
            });
        }
    }
    if found != fields.iter().filter(|field| !field.optional).count() as u64 {
        let absent = fields
            .iter()
            .find(|field| !field.optional && node.get(field.name).is_none());
        if let Some(field) = absent {
            return Err(missing(field.name));
        }
    }
    Ok(())
}

fn check_list(node: Node<'_>, item: &Shape, some: bool) -> Result<(), Mismatch> {
    if !node.is_array() {
        return Err(mismatch(node, "must be a list"));
    }
    let items = node.items();
    if some && items.is_empty() {
        return Err(mismatch(node, "must be a list with something in it"));
    }
    let mut items = items.into_iter().enumerate();
    items.try_for_each(|(at, node)| {
        item.check(node)
            .map_err(|inner| inner.within(format!("[{at}]")))
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
