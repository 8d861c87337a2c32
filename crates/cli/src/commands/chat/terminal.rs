//! How the terminal is set: lines that are being edited change it, and whoever ends meanwhile has to change it back.

/// The settings of the terminal on standard input, if it is one.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    #[cfg(unix)]
    attributes: Option<rustix::termios::Termios>,
}

impl Settings {
    /// As they are now.
    pub(super) fn now() -> Self {
        Self {
            #[cfg(unix)]
            attributes: rustix::termios::tcgetattr(std::io::stdin()).ok(),
        }
    }

    /// Sets the terminal so again.
    pub(super) fn restore(&self) {
        #[cfg(unix)]
        if let Some(attributes) = &self.attributes {
            use rustix::termios::{OptionalActions, tcsetattr};
            // Without it the terminal may be gone as well.
            tcsetattr(std::io::stdin(), OptionalActions::Now, attributes).ok();
        }
    }
}
