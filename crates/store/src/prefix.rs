//! Where a log can be cut without unpacking it: behind each of its frames.
//!
//! A writer knows every frame that it has written, a reader every one that it has read. So a fork finds the frames that its
//! prefix consists of by a search, and shares or copies them as they are.

use std::path::{Path, PathBuf};

use offshoot_format::{Base, Container, RunningDigest};
use offshoot_session::{LogOffset, SharedVec};

use crate::inode::Inode;

/// The whole frames of a session up to some event: what a fork of it need not write again. Empty for a log that is not
/// compressed, has an older format, or is kept in no files.
///
/// Cloning and cutting cost the same however long the log is.
#[derive(Clone, Debug, Default)]
pub struct Prefix {
    files: Vec<FrameFile>,
    points: SharedVec<Point>,
    last: Last,
}

/// What is known about the last frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    /// It is durable: its writer says so, or has begun with what comes behind it, which it does only then.
    #[default]
    Durable,
    /// It is in the file, and nothing is behind it: perhaps its writer will have to take it back.
    Unsure,
}

/// A file that frames of a session lie in.
#[derive(Clone, Debug)]
pub(crate) struct FrameFile {
    pub(crate) path: PathBuf,
    /// Which file it is, where the system says that: the name may come to stand for another.
    pub(crate) id: Option<Inode>,
    /// How long its first frame is, the header: that one holds no events.
    pub(crate) header: u64,
    /// The last frame in it that belongs to the session; `None` while it is the last file.
    end: Option<Point>,
}

/// The end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    file: usize,
    /// Frames, bytes, events and digest up to here; the first two in this file.
    base: Base,
}

impl Prefix {
    /// How long the log is that these frames hold.
    #[must_use]
    pub fn events(&self) -> LogOffset {
        self.points
            .last()
            .map_or(LogOffset::START, |point| point.base.events)
    }

    /// The frames that hold nothing but the first `len` events.
    #[must_use]
    pub fn cut(&self, len: LogOffset) -> Self {
        let (mut low, mut high) = (0, self.points.len());
        while low < high {
            let middle = low.midpoint(high);
            let fits = self
                .points
                .get(middle)
                .is_some_and(|point| point.base.events <= len);
            (low, high) = if fits {
                (middle + 1, high)
            } else {
                (low, middle)
            };
        }
        let mut cut = self.clone();
        cut.keep(low);
        cut
    }

    /// Nobody knows whether the last frame is durable.
    pub(crate) const fn with_unsure_end(mut self) -> Self {
        self.last = Last::Unsure;
        self
    }

    /// Where the last frame begins and ends in its file, and the digest ahead of it, if nobody knows whether it is durable.
    pub(crate) fn unsure_frame(&self) -> Option<(&FrameFile, u64, Base, RunningDigest)> {
        let last = *self.points.last().filter(|_| self.last == Last::Unsure)?;
        let file = self.files.get(last.file)?;
        let before = self.points.len().checked_sub(2);
        let before = before.and_then(|at| self.points.get(at));
        let start = before
            .filter(|before| before.file == last.file)
            .map_or(file.header, |before| before.base.bytes);
        let digest = before.map_or(RunningDigest::START, |before| before.base.digest);
        Some((file, start, last.base, digest))
    }

    /// All but a last frame of which nobody knows whether it is durable.
    pub(crate) fn durable(mut self) -> Self {
        if self.last == Last::Unsure {
            self.keep(self.points.len().saturating_sub(1));
        }
        self
    }

    fn keep(&mut self, points: usize) {
        if points < self.points.len() {
            self.last = Last::Durable;
        }
        self.points.truncate(points);
        let files = self.points.last().map_or(0, |last| last.file + 1);
        self.files.truncate(files);
        if let Some(last) = self.files.last_mut() {
            last.end = None;
        }
    }

    /// Goes on in another file. Its frames are told with [`Prefix::push`].
    pub(crate) fn begin_file(&mut self, path: &Path, id: Option<Inode>, header: u64) {
        let last = self.points.last().copied();
        if let Some(file) = self.files.last_mut() {
            file.end = last;
        }
        self.files.push(FrameFile {
            path: path.to_owned(),
            id,
            header,
            end: None,
        });
    }

    /// A frame of the last file, of so many bytes, with which the log has this length and digest.
    pub(crate) fn push(&mut self, bytes: u64, events: LogOffset, digest: RunningDigest) {
        let Some(file) = self.files.len().checked_sub(1) else {
            return;
        };
        let before = self.points.last().filter(|point| point.file == file);
        let (frames, start) = before.map_or((0, self.files[file].header), |point| {
            (point.base.frames, point.base.bytes)
        });
        self.points.push(Point {
            file,
            base: Base {
                frames: frames + 1,
                bytes: start + bytes,
                events,
                digest,
            },
        });
    }

    /// Frames of the last file, of which only the end is known.
    pub(crate) fn push_base(&mut self, base: Base) {
        if let Some(file) = self.files.len().checked_sub(1) {
            self.points.push(Point { file, base });
        }
    }

    /// The ends of some frames with the index of their file: one every `distance` bytes, and the last one of each file.
    pub(crate) fn every(&self, distance: u64) -> impl Iterator<Item = (usize, Base)> + '_ {
        let mut last = (0, 0);
        let points = (0..self.points.len()).filter_map(|index| self.points.get(index).copied());
        points.enumerate().filter_map(move |(index, point)| {
            let next = self.points.get(index + 1);
            let is_last = next.is_none_or(|next| next.file != point.file);
            let start = match last {
                (file, bytes) if file == point.file => bytes,
                _ => 0,
            };
            if !is_last && point.base.bytes < start + distance {
                return None;
            }
            last = (point.file, point.base.bytes);
            Some((point.file, point.base))
        })
    }

    /// The files, each with the part of it that counts.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&FrameFile, Base)> + '_ {
        let last = self.points.last().copied();
        let files = last.map_or(0, |last| last.file + 1);
        let files = self.files.iter().take(files);
        files.filter_map(move |file| Some((file, file.end.or(last)?.base)))
    }

    /// The same frames under other names: `paths` are links to the files.
    pub(crate) fn linked_at(&self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut linked = self.clone();
        for (file, path) in linked.files.iter_mut().zip(paths) {
            file.path = path;
        }
        linked
    }

    /// The frames in the first `count` files.
    pub(crate) fn first_files(&self, count: usize) -> Self {
        let ends = self.files().take(count).map(|(_, base)| base.events);
        self.cut(ends.last().unwrap_or(LogOffset::START))
    }

    /// The frames behind the first `len` events, each with its size in bytes.
    pub(crate) fn frames_behind(&self, len: LogOffset) -> impl Iterator<Item = (u64, Base)> + '_ {
        let mut before: Option<Point> = None;
        let points = (0..self.points.len()).filter_map(|index| self.points.get(index).copied());
        let sized = points.map(move |point| {
            let start = match before.replace(point) {
                Some(before) if before.file == point.file => before.base.bytes,
                _ => self.files[point.file].header,
            };
            (point.base.bytes - start, point.base)
        });
        sized.filter(move |(_, base)| base.events > len)
    }
}

/// What a writer knows of everything that is stored: the frames, the length, and the digest also where there are no frames.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    container: Container,
    frames: Prefix,
    events: LogOffset,
    digest: RunningDigest,
}

impl Written {
    /// Nothing yet.
    pub(crate) fn new(container: Container) -> Self {
        Self {
            container,
            frames: Prefix::default(),
            events: LogOffset::START,
            digest: RunningDigest::START,
        }
    }

    /// What frames that lie somewhere already hold.
    pub(crate) fn of(frames: Prefix) -> Self {
        Self {
            container: Container::Zstd,
            events: frames.events(),
            digest: frames
                .points
                .last()
                .map_or(RunningDigest::START, |point| point.base.digest),
            frames,
        }
    }

    pub(crate) const fn frames(&self) -> &Prefix {
        &self.frames
    }

    pub(crate) const fn events(&self) -> LogOffset {
        self.events
    }

    pub(crate) const fn digest(&self) -> RunningDigest {
        self.digest
    }

    /// Goes on in a file whose header has so many bytes.
    pub(crate) fn begin_file(&mut self, path: &Path, id: Option<Inode>, header: u64) {
        self.frames.begin_file(path, id, header);
    }

    /// Takes a frame that was copied as it was.
    pub(crate) fn push_frame(&mut self, bytes: u64, frame: Base) {
        (self.events, self.digest) = (frame.events, frame.digest);
        self.frames.push(bytes, frame.events, frame.digest);
    }

    /// Takes a batch that was stored: one frame, or lines, with which the log has the length `events`.
    pub(crate) fn push(&mut self, batch: &[u8], events: LogOffset) {
        self.digest.push_all(self.container, batch);
        self.events = events;
        if self.container == Container::Zstd {
            self.frames.push(batch.len() as u64, events, self.digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(device: u64, number: u64) -> Option<Inode> {
        Some(Inode { device, number })
    }

    fn digest(number: u8) -> RunningDigest {
        let mut digest = RunningDigest::START;
        digest.push(&[number]);
        digest
    }

    fn base(frames: u64, bytes: u64, events: u64, number: u8) -> Base {
        Base {
            frames,
            bytes,
            events: LogOffset::new(events),
            digest: digest(number),
        }
    }

    /// Frames of 10, 20 and 30 bytes in one file, and of 5 in another.
    fn prefix() -> Prefix {
        let mut prefix = Prefix::default();
        prefix.begin_file(Path::new("a"), file(1, 1), 7);
        prefix.push(10, LogOffset::new(2), digest(1));
        prefix.push(20, LogOffset::new(5), digest(2));
        prefix.push(30, LogOffset::new(6), digest(3));
        prefix.begin_file(Path::new("b"), file(1, 2), 9);
        prefix.push(5, LogOffset::new(8), digest(4));
        prefix
    }

    fn bases(prefix: &Prefix) -> Vec<(&str, Base)> {
        let files = prefix.files();
        files
            .map(|(file, base)| (file.path.to_str().unwrap(), base))
            .collect()
    }

    #[test]
    fn a_cut_keeps_the_frames_that_lie_whole_ahead_of_it() {
        let whole = ("a", base(3, 67, 6, 3));
        let cases: [(u64, Vec<(&str, Base)>); 7] = [
            (0, vec![]),
            (1, vec![]),
            (2, vec![("a", base(1, 17, 2, 1))]),
            (5, vec![("a", base(2, 37, 5, 2))]),
            (7, vec![whole]),
            (8, vec![whole, ("b", base(1, 14, 8, 4))]),
            (9, vec![whole, ("b", base(1, 14, 8, 4))]),
        ];
        for (len, expected) in cases {
            assert_eq!(bases(&prefix().cut(LogOffset::new(len))), expected, "{len}");
        }
        assert_eq!(bases(&prefix().durable()).len(), 2);
        let unsure = prefix().with_unsure_end();
        assert_eq!(bases(&unsure.clone().durable()), [whole]);
        assert_eq!(bases(&unsure.cut(LogOffset::new(7)).durable()), [whole]);
    }

    #[test]
    fn frames_behind_a_cut_keep_their_sizes_events_and_digests() {
        let behind = |len| -> Vec<(u64, u64)> {
            let prefix = prefix();
            let frames = prefix.frames_behind(LogOffset::new(len));
            frames
                .map(|(size, base)| (size, base.events.get()))
                .collect()
        };
        assert_eq!(behind(0), [(10, 2), (20, 5), (30, 6), (5, 8)]);
        assert_eq!(behind(5), [(30, 6), (5, 8)]);
        assert_eq!(behind(8), []);
        assert_eq!(bases(&prefix().first_files(1)), [("a", base(3, 67, 6, 3))]);
        assert_eq!(bases(&prefix().first_files(0)), []);
        assert_eq!(bases(&prefix().first_files(9)).len(), 2);
    }
}
