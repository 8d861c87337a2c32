//! Bounds on what a tool hands to the model: beginning and end are kept, the middle is counted.

use std::collections::VecDeque;

/// How much text may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Largest number of bytes, without the notice about what was omitted.
    pub max_bytes: usize,
    /// Largest number of lines, without the notice about what was omitted.
    pub max_lines: usize,
}

impl Default for OutputLimits {
    /// 50 KiB and 2000 lines.
    fn default() -> Self {
        Self {
            max_bytes: 50 * 1024,
            max_lines: 2000,
        }
    }
}

/// What was left out of the middle of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// Bytes of the original that are not shown.
    pub bytes: u64,
    /// Lines of the original of which at least one byte is not shown.
    pub lines: u64,
}

/// A text within its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// What is left, with a notice on a line of its own in place of what is missing.
    pub text: String,
    /// What is missing; `None` if the text is whole.
    pub omitted: Option<Omitted>,
}

/// Bounds a text that is already in memory. See [`HeadTail`] for the rules.
pub fn bound(text: &str, limits: OutputLimits) -> Bounded {
    let mut kept = HeadTail::new(limits);
    kept.push(text.as_bytes());
    kept.finish()
}

/// Collects a stream of bytes in bounded memory: its beginning and its end.
///
/// Each half of the limits goes to one end, the odd one to the beginning. Cuts fall between characters, never inside
/// one. Bytes that are not UTF-8 become U+FFFD when the text is made, which is why broken input can come out up to
/// three times as long as the byte limit.
#[derive(Clone, Debug)]
pub struct HeadTail {
    limits: OutputLimits,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// What has already left the tail at its front.
    gone: Middle,
}

impl HeadTail {
    /// An empty collection.
    pub fn new(limits: OutputLimits) -> Self {
        Self {
            limits,
            head: Vec::new(),
            tail: VecDeque::new(),
            gone: Middle::default(),
        }
    }

    fn head_bytes(&self) -> usize {
        self.limits.max_bytes - self.tail_bytes()
    }

    fn tail_bytes(&self) -> usize {
        self.limits.max_bytes / 2
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        let (into_head, rest) =
            bytes.split_at(bytes.len().min(self.head_bytes() - self.head.len()));
        self.head.extend_from_slice(into_head);

        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_bytes());
        let from_tail = excess.min(self.tail.len());
        let (older, newer) = self.tail.as_slices();
        let from_older = from_tail.min(older.len());
        self.gone.add(&older[..from_older]);
        self.gone.add(&newer[..from_tail - from_older]);
        self.tail.drain(..from_tail);
        let (skipped, kept) = rest.split_at(excess - from_tail);
        self.gone.add(skipped);
        self.tail.extend(kept);
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.gone.bytes == 0
    }

    /// The text of what was kept.
    pub fn finish(self) -> Bounded {
        let tail_lines = self.limits.max_lines / 2;
        let head_lines = self.limits.max_lines - tail_lines;
        let Self {
            mut head,
            tail,
            gone,
            ..
        } = self;
        let tail = Vec::from(tail);

        if gone.bytes == 0 {
            head.extend_from_slice(&tail);
            let whole = head;
            if count_lines(&whole) <= self.limits.max_lines as u64 {
                return Bounded {
                    text: lossy(&whole),
                    omitted: None,
                };
            }
            // More lines than both ends together may have, so the two cuts cannot cross.
            let head_end = first_lines(&whole, head_lines);
            let tail_start = last_lines(&whole, tail_lines);
            let mut middle = Middle::default();
            middle.add(&whole[head_end..tail_start]);
            return joined(&whole[..head_end], middle, &whole[tail_start..]);
        }

        let head_end = first_lines(&head, head_lines).min(without_split_char(&head));
        let tail_start = last_lines(&tail, tail_lines).max(leading_continuation(&tail));
        let mut middle = Middle::default();
        middle.add(&head[head_end..]);
        middle.join(gone);
        middle.add(&tail[..tail_start]);
        joined(&head[..head_end], middle, &tail[tail_start..])
    }
}

/// A stretch of bytes that nobody keeps, only counts.
#[derive(Clone, Copy, Debug, Default)]
struct Middle {
    bytes: u64,
    breaks: u64,
    ends_in_break: bool,
}

impl Middle {
    fn add(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.bytes += bytes.len() as u64;
        self.breaks += count_breaks(bytes);
        self.ends_in_break = *last == b'\n';
    }

    fn join(&mut self, next: Self) {
        if next.bytes > 0 {
            self.bytes += next.bytes;
            self.breaks += next.breaks;
            self.ends_in_break = next.ends_in_break;
        }
    }
}

fn joined(head: &[u8], middle: Middle, tail: &[u8]) -> Bounded {
    let omitted = Omitted {
        bytes: middle.bytes,
        lines: middle.breaks + u64::from(!middle.ends_in_break),
    };
    let mut text = lossy(head);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!(
        "[... {} bytes omitted, in {} lines ...]\n",
        omitted.bytes, omitted.lines
    ));
    text.push_str(&lossy(tail));
    Bounded {
        text,
        omitted: Some(omitted),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn count_breaks(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn count_lines(bytes: &[u8]) -> u64 {
    count_breaks(bytes) + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

/// Where the first `lines` lines end.
fn first_lines(bytes: &[u8], lines: usize) -> usize {
    match lines.checked_sub(1) {
        None => 0,
        Some(nth) => breaks(bytes).nth(nth).map_or(bytes.len(), |at| at + 1),
    }
}

/// Where the last `lines` lines begin.
fn last_lines(bytes: &[u8], lines: usize) -> usize {
    if lines == 0 {
        return bytes.len();
    }
    // A break at the very end closes the last line instead of opening another.
    let closed = usize::from(bytes.last() == Some(&b'\n'));
    breaks(bytes)
        .rev()
        .nth(lines - 1 + closed)
        .map_or(0, |at| at + 1)
}

fn breaks(bytes: &[u8]) -> impl DoubleEndedIterator<Item = usize> {
    bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at)
}

/// The length without a character at the end whose last bytes are missing.
fn without_split_char(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let width = match bytes[at] {
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        };
        return if width > back { at } else { bytes.len() };
    }
    bytes.len()
}

/// How many bytes at the start are the end of a character whose first bytes are missing.
fn leading_continuation(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|byte| matches!(byte, 0x80..=0xBF))
        .count()
}
