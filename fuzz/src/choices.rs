//! Bytes as a list of decisions, for the targets that build something valid.

/// The decisions of one input. When its bytes are used up, every further one is 0.
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// A number less than `count`, which is at least 1.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let high = if count > 256 { self.byte() } else { 0 };
        (usize::from(high) << 8 | usize::from(self.byte())) % count
    }

    /// One of a list that is not empty.
    pub(crate) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// True once in `count` times, and never when the bytes are used up.
    pub(crate) fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }
}
