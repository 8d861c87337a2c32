//! Points at which the server waits for the test, so that order never depends on time.

use tokio_util::sync::CancellationToken;

/// A point in a reply that the server does not pass before the test says so.
///
/// Clones are the same gate. A released gate stays open.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    reached: CancellationToken,
    released: CancellationToken,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Lets the server go on. Releasing ahead of time is fine.
    pub fn release(&self) {
        self.released.cancel();
    }

    /// Waits until the server stands before this gate: everything before it has been handed to the connection.
    pub async fn reached(&self) {
        self.reached.cancelled().await;
    }

    pub(super) async fn pass(&self) {
        self.reached.cancel();
        self.released.cancelled().await;
    }
}

/// The gates before every chunk of a reply.
#[derive(Clone, Debug)]
pub struct Gates(Vec<Gate>);

impl Gates {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| Gate::new()).collect())
    }

    pub(super) fn all(&self) -> &[Gate] {
        &self.0
    }

    /// The gate before chunk `chunk`, counted from 0.
    ///
    /// # Panics
    /// If the reply has no such chunk.
    pub fn gate(&self, chunk: usize) -> &Gate {
        self.0.get(chunk).unwrap_or_else(|| {
            panic!(
                "the reply has {} chunks, so it has no gate {chunk}",
                self.0.len()
            )
        })
    }

    /// Lets chunk `chunk` go out, once those before it have.
    ///
    /// # Panics
    /// If the reply has no such chunk.
    pub fn release(&self, chunk: usize) {
        self.gate(chunk).release();
    }

    /// Lets everything go out.
    pub fn release_all(&self) {
        self.0.iter().for_each(Gate::release);
    }

    /// How many chunks the reply has, the final `[DONE]` included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the reply has no chunks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
