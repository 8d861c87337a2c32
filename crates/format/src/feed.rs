//! From bytes to rows that nobody has judged yet: lines, frames, and the reading of each row by itself.
//!
//! This is the part of reading a file that needs nothing but the bytes in hand, so it can run ahead on a thread of its own
//! while the rows are judged in their order ([`crate::rows`]). What it hands out is the same either way.
//!
//! Reading rows costs several times what judging them does. So the thread that runs ahead leaves some of the reading to the
//! one that judges: whenever that has nothing else to do.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
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

/// How many such pieces may wait to be taken.
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
    if !two {
        split(container, bytes, at, &mut |parcel: Parcel<'_>| {
            sink.take(parcel.open(version))
        });
        return;
    }
    let waiting = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, parcels) = sync_channel(WAITING);
        // The reader ends by itself when nobody takes its parcels any more.
        scope.spawn(move || {
            split(container, bytes, at, &mut |parcel: Parcel<'_>| {
                let idle = waiting.fetch_add(1, Ordering::Relaxed) == 0;
                let parcel = match parcel {
                    Parcel::Lines(_) if idle => parcel,
                    parcel => Parcel::Piece(parcel.open(version)),
                };
                match sender.send(parcel) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
        });
        for parcel in parcels {
            waiting.fetch_sub(1, Ordering::Relaxed);
            if sink.take(parcel.open(version)).is_break() {
                break;
            }
        }
    });
}

/// What goes from the one who splits the file to the one who judges its rows.
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

fn split<'a>(
    container: Container,
    bytes: &'a [u8],
    at: usize,
    out: &mut impl FnMut(Parcel<'a>) -> ControlFlow<()>,
) {
    // Breaking off means that nobody listens, so there is nothing left to say.
    let _done = match container {
        Container::Raw => split_raw(bytes, at, out),
        Container::Zstd => {
            let lines = Lines::default();
            Feeder { out, lines }.zstd(bytes, at)
        }
    };
}

fn split_raw<'a>(
    bytes: &'a [u8],
    mut at: usize,
    out: &mut impl FnMut(Parcel<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    while at < bytes.len() {
        let start = at;
        let mut lines = Lines::default();
        while !lines.is_full()
            && let Some(length) = memchr(b'\n', &bytes[at..])
        {
            lines.ends.push((at + length - start, at as u64));
            at += length + 1;
            lines.text = Cow::Borrowed(&bytes[start..at]);
        }
        if lines.ends.is_empty() {
            let (byte, reason) = (at as u64, "the line was cut off");
            return out(Parcel::Piece(Piece::Torn { byte, reason }));
        }
        out(Parcel::Lines(lines))?;
    }
    ControlFlow::Continue(())
}

/// Splits a compressed file.
struct Feeder<'f, 'a, F: FnMut(Parcel<'a>) -> ControlFlow<()>> {
    out: &'f mut F,
    lines: Lines<'a>,
}

impl<'a, F: FnMut(Parcel<'a>) -> ControlFlow<()>> Feeder<'_, 'a, F> {
    fn zstd(&mut self, bytes: &[u8], mut at: usize) -> ControlFlow<()> {
        let mut unpacker = Unpacker::new();
        while at < bytes.len() {
            let (byte, rest) = (at as u64, &bytes[at..]);
            match scan_frame(rest) {
                Ok(FrameScan::Complete(length)) => {
                    self.frame(&mut unpacker, &rest[..length], byte)?;
                    at += length;
                }
                Ok(FrameScan::Incomplete) => return self.torn(&mut unpacker, rest, byte),
                Err(reason) => return self.corrupt(byte, reason.to_owned()),
            }
        }
        self.hand_over()
    }

    fn frame(&mut self, unpacker: &mut Unpacker, frame: &[u8], byte: u64) -> ControlFlow<()> {
        let problem = match self.lines(unpacker, frame, byte)? {
            Ok(false) if !unpacker.is_cut_off() => return ControlFlow::Continue(()),
            Ok(true) if !unpacker.is_cut_off() => {
                return self.corrupt(
                    byte,
                    "a whole frame ends in the middle of a line".to_owned(),
                );
            }
            Ok(_) => "it ends too early".to_owned(),
            Err(problem) => problem,
        };
        self.corrupt(
            byte,
            format!("the zstd frame does not decompress: {problem}"),
        )
    }

    /// What there is in a frame that was cut off. A fault in it ends what can be had: nothing behind that was ever
    /// acknowledged.
    fn torn(&mut self, unpacker: &mut Unpacker, rest: &[u8], byte: u64) -> ControlFlow<()> {
        let _rest = self.lines(unpacker, rest, byte)?;
        self.hand_over()?;
        let reason = "the frame was cut off";
        (self.out)(Parcel::Piece(Piece::Torn { byte, reason }))?;
        // A damaged length looks like a torn end too. But behind a real one nothing was ever written, so whole frames
        // there are heard as witnesses.
        for hidden in frames_behind(rest) {
            match hidden {
                Hidden::Frame { at, length } => {
                    let _rest = self.lines(unpacker, &rest[at..at + length], byte)?;
                }
                Hidden::Suspicious => {
                    let reason = "it has no end, and too much in it looks like a frame and is none";
                    return self.corrupt(byte, reason.to_owned());
                }
            }
        }
        self.hand_over()
    }

    /// Feeds the whole lines of a frame; says whether something without a line feed was left, or why there are no more.
    fn lines(
        &mut self,
        unpacker: &mut Unpacker,
        frame: &[u8],
        byte: u64,
    ) -> ControlFlow<(), Result<bool, String>> {
        unpacker.begin();
        loop {
            match unpacker.next_line(frame) {
                Ok(Some(FrameLine {
                    text,
                    is_whole: true,
                })) => self.line(text, byte)?,
                Ok(rest) => return ControlFlow::Continue(Ok(rest.is_some())),
                Err(problem) => return ControlFlow::Continue(Err(problem)),
            }
        }
    }

    fn line(&mut self, line: &[u8], byte: u64) -> ControlFlow<()> {
        let text = self.lines.text.to_mut();
        text.extend_from_slice(line);
        self.lines.ends.push((text.len(), byte));
        text.push(b'\n');
        if self.lines.is_full() {
            self.hand_over()?;
        }
        ControlFlow::Continue(())
    }

    fn corrupt(&mut self, byte: u64, reason: String) -> ControlFlow<()> {
        self.hand_over()?;
        (self.out)(Parcel::Piece(Piece::Corrupt { byte, reason }))
    }

    fn hand_over(&mut self) -> ControlFlow<()> {
        if self.lines.ends.is_empty() {
            return ControlFlow::Continue(());
        }
        let next = Lines {
            text: Cow::Owned(Vec::with_capacity(self.lines.text.len())),
            ends: Vec::with_capacity(MOST_ROWS),
        };
        let lines = std::mem::replace(&mut self.lines, next);
        (self.out)(Parcel::Lines(lines))
    }
}
