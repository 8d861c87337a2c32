//! What is printed while a person types: above their line, which stays whole.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustyline::ExternalPrinter;

/// Prints on a thread of its own: the printer waits for the editor now and then, and nobody else should.
pub(super) fn above(mut printer: impl ExternalPrinter + Send + 'static) -> Sender<String> {
    let (print, texts) = channel::<String>();
    thread::spawn(move || {
        for text in texts {
            // What cannot be shown is in the log.
            drop(printer.print(text));
        }
    });
    print
}
