//! From bytes to rows that nobody has judged yet: lines, frames, and the reading of each row by itself.
//!
//! This is the part of reading a file that needs nothing but the bytes in hand, so it can run ahead on a thread of its own
//! while the rows are judged in their order ([`crate::rows`]). What it hands out is the same either way.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::thread;

use memchr::memchr;
use offshoot_session::LogOffset;

use crate::Place;
use crate::codec::{Row, RowFault, read_row};
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
const WAITING: usize = 4;

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
        read(container, bytes, at, version, sink);
        return;
    }
    thread::scope(|scope| {
        let (sender, pieces) = sync_channel(WAITING);
        // The reader ends by itself when nobody takes its pieces any more.
        scope.spawn(move || read(container, bytes, at, version, &mut Sender(sender)));
        for piece in pieces {
            if sink.take(piece).is_break() {
                break;
            }
        }
    });
}

struct Sender(std::sync::mpsc::SyncSender<Piece>);

impl Sink for Sender {
    fn take(&mut self, piece: Piece) -> ControlFlow<()> {
        match self.0.send(piece) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

fn read(container: Container, bytes: &[u8], at: usize, version: Version, sink: &mut impl Sink) {
    let mut feeder = Feeder {
        version,
        sink,
        rows: Vec::new(),
        size: 0,
    };
    // Breaking off means that nobody listens, so there is nothing left to say.
    let _done = match container {
        Container::Raw => feeder.raw(bytes, at),
        Container::Zstd => feeder.zstd(bytes, at),
    };
}

struct Feeder<'a, S> {
    version: Version,
    sink: &'a mut S,
    rows: Vec<Fed>,
    size: usize,
}

impl<S: Sink> Feeder<'_, S> {
    fn raw(&mut self, bytes: &[u8], mut at: usize) -> ControlFlow<()> {
        while let Some(length) = memchr(b'\n', &bytes[at..]) {
            self.line(&bytes[at..at + length], at as u64)?;
            at += length + 1;
        }
        self.hand_over()?;
        if at < bytes.len() {
            let (byte, reason) = (at as u64, "the line was cut off");
            self.sink.take(Piece::Torn { byte, reason })?;
        }
        ControlFlow::Continue(())
    }

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
        self.sink.take(Piece::Torn { byte, reason })?;
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
        // Which line and seq it is, is not known yet: whoever judges the rows counts them.
        let place = Place {
            line: 0,
            seq: LogOffset::START,
            byte,
        };
        let row = match std::str::from_utf8(line) {
            Ok(text) => read_row(text, self.version, place),
            Err(error) => Err(RowFault::Structure(format!(
                "not UTF-8 (byte {} of the line)",
                error.valid_up_to()
            ))),
        };
        self.rows.push(Fed { byte, row });
        self.size += line.len();
        if self.rows.len() >= MOST_ROWS || self.size >= MOST_BYTES {
            self.hand_over()?;
        }
        ControlFlow::Continue(())
    }

    fn corrupt(&mut self, byte: u64, reason: String) -> ControlFlow<()> {
        self.hand_over()?;
        self.sink.take(Piece::Corrupt { byte, reason })
    }

    fn hand_over(&mut self) -> ControlFlow<()> {
        self.size = 0;
        if self.rows.is_empty() {
            return ControlFlow::Continue(());
        }
        let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(MOST_ROWS));
        self.sink.take(Piece::Rows(rows))
    }
}
