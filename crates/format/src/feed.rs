//! From bytes to rows that nobody has judged yet: lines, frames, and the reading of each row by itself.
//!
//! This is the part of reading a file that needs nothing but the bytes in hand, so it can run ahead on a thread of its own
//! while the rows are judged in their order ([`crate::rows`]). What it hands out is the same either way.
//!
//! Reading rows costs several times what judging them does. So both threads read: the one that judges, whenever it has
//! nothing to judge.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter::Enumerate;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use memchr::memchr;
use offshoot_session::{LogOffset, RowsText};

use crate::Place;
use crate::codec::{Row, RowFault, read_part, read_row};
use crate::frames::{FrameLine, FrameScan, Hidden, Unpacker, frames_behind, scan_frame};
use crate::scan::Container;
use crate::version::Version;

/// A row of a file, read or not.
pub(crate) struct Fed {
    /// The offset of the line, or of the frame that holds it.
    pub(crate) byte: u64,
    pub(crate) row: Result<Row, RowFault>,
}

/// What a file consists of behind its header.
pub(crate) enum Piece {
    /// Some rows.
    Rows(Vec<Fed>),
    /// A frame is damaged; rows of it that came before mean nothing. There are no more pieces.
    Corrupt {
        /// Where the frame begins.
        byte: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The next line, or its frame, stops ahead of its end.
    Torn {
        /// Where.
        byte: u64,
        /// What it is that was torn.
        reason: &'static str,
    },
}

/// Takes the pieces of a file in their order; breaks off when it has seen enough.
pub(crate) trait Sink {
    fn take(&mut self, piece: Piece) -> ControlFlow<()>;
}

/// How many rows, and about how many bytes of them, travel together: enough that handing them over costs nothing, and few
/// enough that little lies between the threads.
const MOST_ROWS: usize = 256;
const MOST_BYTES: usize = 256 << 10;

/// How many such pieces each thread may have read before their turn.
const WAITING: usize = 8;

/// How many bytes a file needs for a second thread to be worth its while.
const WORTH_A_THREAD: usize = 256 << 10;

/// On how many threads a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// Two where the file is large enough and the machine has them.
    #[default]
    Auto,
    /// Only the caller's.
    One,
    /// The caller's and one more.
    Two,
}

/// Feeds what stands in the file from `at` on.
pub(crate) fn feed(
    container: Container,
    bytes: &[u8],
    at: usize,
    version: Version,
    threads: Threads,
    sink: &mut impl Sink,
) {
    let two = match threads {
        Threads::One => false,
        Threads::Two => true,
        Threads::Auto => {
            bytes.len() >= WORTH_A_THREAD
                && thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
        }
    };
    let splitter = Splitter::new(container, bytes, at);
    if !two {
        for parcel in splitter {
            if sink.take(parcel.open(version)).is_break() {
                break;
            }
        }
        return;
    }
    let shared = Shared(Mutex::new(splitter.enumerate()));
    thread::scope(|scope| {
        let (sender, read) = sync_channel(WAITING);
        let shared = &shared;
        // It ends by itself when nobody takes its pieces any more.
        scope.spawn(move || {
            while let Some((number, parcel)) = shared.next() {
                if sender.send((number, parcel.open(version))).is_err() {
                    break;
                }
            }
        });
        let pieces = InOrder {
            shared,
            read,
            version,
            early: BTreeMap::new(),
            next: 0,
        };
        for piece in pieces {
            if sink.take(piece).is_break() {
                break;
            }
        }
    });
}

/// The parcels of a file, for whoever is ready to read one.
struct Shared<'a>(Mutex<Enumerate<Splitter<'a>>>);

impl<'a> Shared<'a> {
    fn next(&self) -> Option<(usize, Parcel<'a>)> {
        // Whoever panicked in the middle of splitting is about to end everything.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// All pieces in their order, some read by the other thread and some by this one.
struct InOrder<'s, 'a> {
    shared: &'s Shared<'a>,
    read: Receiver<(usize, Piece)>,
    version: Version,
    /// What was read before its turn.
    early: BTreeMap<usize, Piece>,
    next: usize,
}

impl Iterator for InOrder<'_, '_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.early.remove(&self.next) {
                self.next += 1;
                return Some(piece);
            }
            // Nothing is taken ahead of need: what waits in the channel holds the other thread back.
            let (number, piece) = match self.read.try_recv() {
                Ok(read) => read,
                Err(_) => self.read_one().or_else(|| self.read.recv().ok())?,
            };
            self.early.insert(number, piece);
        }
    }
}

impl InOrder<'_, '_> {
    /// Reads the next piece that nobody has taken. The other thread is still at the one that is wanted, and to wait for it
    /// would be a waste.
    fn read_one(&self) -> Option<(usize, Piece)> {
        if self.early.len() >= WAITING {
            return None;
        }
        let (number, parcel) = self.shared.next()?;
        Some((number, parcel.open(self.version)))
    }
}

/// A piece, or what becomes one.
enum Parcel<'a> {
    Lines(Lines<'a>),
    Piece(Piece),
}

impl Parcel<'_> {
    /// Reads the rows, if that was not done yet.
    fn open(self, version: Version) -> Piece {
        match self {
            Self::Lines(lines) => Piece::Rows(lines.read(version)),
            Self::Piece(piece) => piece,
        }
    }
}

/// Lines that nobody has read yet.
#[derive(Default)]
struct Lines<'a> {
    /// Whole lines, each with its line feed.
    text: Cow<'a, [u8]>,
    /// Where each ends, ahead of its line feed, and [`Fed::byte`].
    ends: Vec<(usize, u64)>,
}

impl Lines<'_> {
    fn add(&mut self, line: &[u8], byte: u64) {
        let text = self.text.to_mut();
        text.extend_from_slice(line);
        self.ends.push((text.len(), byte));
        text.push(b'\n');
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= MOST_ROWS || self.text.len() >= MOST_BYTES
    }

    fn read(self, version: Version) -> Vec<Fed> {
        let text = match self.text {
            Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Cow::Borrowed(text)),
                Err(_) => Err(Cow::Borrowed(bytes)),
            },
            Cow::Owned(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Cow::Owned(text)),
                Err(error) => Err(Cow::Owned(error.into_bytes())),
            },
        };
        let mut start = 0;
        let parts = self.ends.into_iter().map(|(end, byte)| {
            let part = start..end;
            start = end + 1;
            // Which line and seq it is, is not known yet: whoever judges the rows counts them.
            let place = Place {
                line: 0,
                seq: LogOffset::START,
                byte,
            };
            (part, place)
        });
        let fed = |place: Place, row| Fed {
            byte: place.byte,
            row,
        };
        match text {
            Ok(text) if version == Version::CURRENT => {
                let text = RowsText::from(text);
                parts
                    .map(|(part, place)| fed(place, read_part(&text, part)))
                    .collect()
            }
            Ok(text) => parts
                .map(|(part, place)| fed(place, read_row(&text[part], version, place)))
                .collect(),
            Err(bytes) => parts
                .map(|(part, place)| fed(place, read_bytes(&bytes[part], version, place)))
                .collect(),
        }
    }
}

fn read_bytes(line: &[u8], version: Version, place: Place) -> Result<Row, RowFault> {
    match std::str::from_utf8(line) {
        Ok(text) => read_row(text, version, place),
        Err(error) => Err(RowFault::Structure(format!(
            "not UTF-8 (byte {} of the line)",
            error.valid_up_to()
        ))),
    }
}

/// Splits what stands in a file behind its header.
enum Splitter<'a> {
    Raw { bytes: &'a [u8], at: usize },
    Zstd(Box<Frames<'a>>),
}

impl<'a> Splitter<'a> {
    fn new(container: Container, bytes: &'a [u8], at: usize) -> Self {
        match container {
            Container::Raw => Self::Raw { bytes, at },
            Container::Zstd => Self::Zstd(Box::new(Frames {
                bytes,
                at,
                unpacker: Unpacker::new(),
                lines: Lines::default(),
                frame: None,
                hidden: None,
                then: None,
            })),
        }
    }
}

impl<'a> Iterator for Splitter<'a> {
    type Item = Parcel<'a>;

    fn next(&mut self) -> Option<Parcel<'a>> {
        match self {
            Self::Raw { bytes, at } => split_raw(bytes, at),
            Self::Zstd(frames) => frames.next(),
        }
    }
}

fn split_raw<'a>(bytes: &'a [u8], at: &mut usize) -> Option<Parcel<'a>> {
    let start = *at;
    if start >= bytes.len() {
        return None;
    }
    let mut lines = Lines::default();
    while !lines.is_full()
        && let Some(length) = memchr(b'\n', &bytes[*at..])
    {
        lines.ends.push((*at + length - start, *at as u64));
        *at += length + 1;
        lines.text = Cow::Borrowed(&bytes[start..*at]);
    }
    if !lines.ends.is_empty() {
        return Some(Parcel::Lines(lines));
    }
    *at = bytes.len();
    Some(Parcel::Piece(Piece::Torn {
        byte: start as u64,
        reason: "the line was cut off",
    }))
}

/// A compressed file on its way to lines.
struct Frames<'a> {
    bytes: &'a [u8],
    /// Where the next frame begins.
    at: usize,
    unpacker: Unpacker,
    lines: Lines<'a>,
    /// The frame that is being unpacked.
    frame: Option<Frame<'a>>,
    /// The frames that lie behind the start of one that was cut off, and where that starts. There are no others then.
    hidden: Option<(Box<dyn Iterator<Item = Hidden> + Send + 'a>, usize)>,
    /// What comes behind the lines in hand.
    then: Option<Piece>,
}

#[derive(Clone, Copy)]
struct Frame<'a> {
    bytes: &'a [u8],
    /// [`Fed::byte`] of its lines.
    byte: u64,
    role: Role,
}

#[derive(Clone, Copy)]
enum Role {
    Whole,
    CutOff,
    Hidden,
}

impl<'a> Frames<'a> {
    fn next(&mut self) -> Option<Parcel<'a>> {
        loop {
            if self.lines.is_full() {
                return Some(self.hand_over());
            }
            if let Some(frame) = self.frame {
                self.unpack(frame);
                continue;
            }
            if self.then.is_none() && self.begin_frame() {
                continue;
            }
            if !self.lines.ends.is_empty() {
                return Some(self.hand_over());
            }
            let piece = self.then.take()?;
            return Some(Parcel::Piece(piece));
        }
    }

    /// Begins with another frame, or finds that there is something else; false at the end.
    fn begin_frame(&mut self) -> bool {
        let (bytes, byte) = (self.bytes, self.at as u64);
        if let Some((hidden, start)) = &mut self.hidden {
            let byte = *start as u64;
            match hidden.next() {
                None => return false,
                Some(Hidden::Frame { at, length }) => {
                    let at = *start + at;
                    self.begin(&bytes[at..at + length], byte, Role::Hidden);
                }
                Some(Hidden::Suspicious) => {
                    let reason = "it has no end, and too much in it looks like a frame and is none";
                    self.corrupt(byte, reason.to_owned());
                }
            }
            return true;
        }
        let rest = &bytes[self.at..];
        if rest.is_empty() {
            return false;
        }
        match scan_frame(rest) {
            Ok(FrameScan::Complete(length)) => {
                self.at += length;
                self.begin(&rest[..length], byte, Role::Whole);
            }
            Ok(FrameScan::Incomplete) => {
                self.at = bytes.len();
                self.begin(rest, byte, Role::CutOff);
            }
            Err(reason) => self.corrupt(byte, reason.to_owned()),
        }
        true
    }

    fn begin(&mut self, bytes: &'a [u8], byte: u64, role: Role) {
        self.unpacker.begin();
        self.frame = Some(Frame { bytes, byte, role });
    }

    /// Takes lines out of the frame until they are enough or it ends.
    fn unpack(&mut self, frame: Frame<'a>) {
        let end = loop {
            match self.unpacker.next_line(frame.bytes) {
                Ok(Some(FrameLine {
                    text,
                    is_whole: true,
                })) => {
                    self.lines.add(text, frame.byte);
                    if self.lines.is_full() {
                        return;
                    }
                }
                // Something without a line feed may be left.
                Ok(rest) => break Ok(rest.is_some()),
                Err(problem) => break Err(problem),
            }
        };
        self.frame = None;
        match frame.role {
            Role::Whole => self.end_whole(frame.byte, end),
            // What there is, is used. A fault in it ends what can be had: nothing behind that was ever acknowledged.
            Role::CutOff => {
                let (byte, reason) = (frame.byte, "the frame was cut off");
                self.then = Some(Piece::Torn { byte, reason });
                // A damaged length looks like a torn end too. But behind a real one nothing was ever written, so whole
                // frames there are heard as witnesses.
                let start = self.bytes.len() - frame.bytes.len();
                self.hidden = Some((Box::new(frames_behind(frame.bytes)), start));
            }
            Role::Hidden => {}
        }
    }

    fn end_whole(&mut self, byte: u64, end: Result<bool, String>) {
        let problem = match end {
            Ok(false) if !self.unpacker.is_cut_off() => return,
            Ok(true) if !self.unpacker.is_cut_off() => {
                let reason = "a whole frame ends in the middle of a line";
                return self.corrupt(byte, reason.to_owned());
            }
            Ok(_) => "it ends too early".to_owned(),
            Err(problem) => problem,
        };
        let reason = format!("the zstd frame does not decompress: {problem}");
        self.corrupt(byte, reason);
    }

    /// Nothing comes behind this.
    fn corrupt(&mut self, byte: u64, reason: String) {
        self.then = Some(Piece::Corrupt { byte, reason });
        self.at = self.bytes.len();
        self.hidden = None;
    }

    fn hand_over(&mut self) -> Parcel<'a> {
        let next = Lines {
            text: Cow::Owned(Vec::with_capacity(self.lines.text.len())),
            ends: Vec::with_capacity(self.lines.ends.len()),
        };
        Parcel::Lines(std::mem::replace(&mut self.lines, next))
    }
}
