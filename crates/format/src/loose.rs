//! Rows from the middle of a file, for whoever knows that they are sound.

use std::ops::ControlFlow;
use std::sync::Arc;

use offshoot_session::Event;

use crate::FormatError;
use crate::codec::{Row, RowFault};
use crate::feed::{Fed, Piece, Sink, Threads, feed};
use crate::scan::Container;
use crate::version::Version;

/// Reads the rows of whole frames, or of whole lines, of a file of the current version. Each row is read by itself: how the
/// events relate to each other and to those ahead of them is not looked at, because the file was validated before.
///
/// # Errors
/// Bytes that are no such rows; the place counts from their start.
pub fn read_rows(container: Container, bytes: &[u8]) -> Result<Vec<Arc<Event>>, FormatError> {
    let mut rows = Loose {
        events: Vec::new(),
        fault: None,
    };
    feed(
        container,
        bytes,
        0,
        Version::CURRENT,
        Threads::One,
        &mut rows,
    );
    match rows.fault {
        None => Ok(rows.events),
        Some((byte, reason)) => Err(FormatError::CorruptFrame { byte, reason }),
    }
}

struct Loose {
    events: Vec<Arc<Event>>,
    fault: Option<(u64, String)>,
}

impl Sink for Loose {
    fn take(&mut self, piece: Piece) -> ControlFlow<()> {
        let rows = match piece {
            Piece::Rows(rows) => rows,
            Piece::Corrupt { byte, reason } => {
                self.fault = Some((byte, reason));
                return ControlFlow::Break(());
            }
            Piece::Torn { byte, reason } => {
                self.fault = Some((byte, reason.to_owned()));
                return ControlFlow::Break(());
            }
        };
        for Fed { byte, row } in rows {
            match row {
                Ok(Row::Current(event)) => self.events.push(event),
                Ok(Row::Older(_)) => unreachable!("rows are read for their version"),
                Err(RowFault::Structure(reason) | RowFault::Rule(reason)) => {
                    self.fault = Some((byte, reason));
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"type":"turn/start","seq":7,"time":1,"data":{"turn":3}}"#;

    #[test]
    fn rows_are_read_wherever_they_stand_and_only_whole() {
        let event = Event::from_row(ROW).unwrap();
        for container in [Container::Raw, Container::Zstd] {
            let bytes = container.batch([&event, &event]);
            let rows = read_rows(container, &bytes).unwrap();
            let texts: Vec<&str> = rows.iter().map(|event| event.text()).collect();
            assert_eq!(texts, [ROW, ROW]);
            assert!(read_rows(container, &[]).unwrap().is_empty());
            assert!(read_rows(container, &bytes[..bytes.len() - 1]).is_err());
            let junk = container.batch([&event]);
            let mut junk = [junk, b"{}\n".to_vec()].concat();
            junk[0] ^= 1;
            assert!(read_rows(container, &junk).is_err());
        }
    }
}
