//! What a person asks: words from the command line and from standard input, and pictures from files.

use std::fs;
use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use offshoot_agent::Input;
use offshoot_model::{ContentBlock, ImageAttachment, MessageSource};
use offshoot_store::Blobs;

use crate::args::Turn;
use crate::failure::Failure;
use crate::notes::Notes;
use crate::system;

/// Stands for standard input where a prompt is expected.
const STDIN: &str = "-";
/// The longest standard input that is taken as a prompt, in bytes.
const MAX_STDIN: u64 = 10 << 20;
/// The largest picture, in bytes.
const MAX_IMAGE: u64 = 20 << 20;
/// How long nothing may come from standard input before a note says that it is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is asked, read and checked, and nothing of it stored yet.
#[derive(Debug)]
pub(crate) struct Question {
    text: String,
    images: Vec<Image>,
}

#[derive(Debug)]
struct Image {
    bytes: Vec<u8>,
    media_type: &'static str,
    width: u64,
    height: u64,
    name: Option<String>,
}

impl Question {
    /// The prompt with what standard input has to add, and the pictures. `command` is what the prompt stands behind.
    ///
    /// # Errors
    /// There is nothing to ask, or something of it cannot be read.
    pub(crate) fn read(args: &Turn, command: &str, notes: Notes) -> Result<Self, Failure> {
        let images: Vec<Image> = args
            .images
            .iter()
            .map(|path| image(path))
            .collect::<Result<_, _>>()?;
        let prompt = args.prompt.as_deref().filter(|prompt| *prompt != STDIN);
        let piped = match prompt {
            // Who gives no prompt means standard input, whatever it is, unless nobody could type an end to it.
            None if !std::io::stdin().is_terminal() => Some(stdin(notes)?),
            Some(_) if is_piped() => Some(stdin(notes)?),
            _ => None,
        };
        let piped = piped.as_deref().map(str::trim_end).unwrap_or_default();
        let text = match (prompt, piped) {
            (Some(prompt), "") => prompt.to_owned(),
            (Some(prompt), piped) => format!("{prompt}\n\n{piped}"),
            (None, piped) => piped.to_owned(),
        };
        if text.trim().is_empty() {
            let failure = Failure::usage("there is no prompt: say what the agent is to do");
            return Err(failure.hint(format!(
                "{command} PROMPT, or give it on standard input: {command} < FILE"
            )));
        }
        Ok(Self { text, images })
    }

    /// Words alone.
    pub(crate) fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            images: Vec::new(),
        }
    }

    /// Whether pictures belong to it.
    pub(crate) fn has_images(&self) -> bool {
        !self.images.is_empty()
    }

    /// The message, with its pictures stored.
    ///
    /// # Errors
    /// A picture could not be stored.
    pub(crate) fn store(&self, blobs: &Blobs) -> Result<Input, Failure> {
        let env = system::env();
        let mut content = vec![ContentBlock::text(self.text.as_str())];
        for image in &self.images {
            let id = blobs.put(&image.bytes, env.clock.now())?;
            content.push(ContentBlock::Image {
                attachment: ImageAttachment {
                    attachment_id: id.to_string(),
                    media_type: image.media_type.to_owned(),
                    bytes: image.bytes.len() as u64,
                    width: image.width,
                    height: image.height,
                    name: image.name.clone(),
                    original_dimensions: None,
                },
                offloaded: false,
            });
        }
        Ok(Input::blocks(
            env.ids.fresh(),
            content,
            MessageSource::user(),
        ))
    }
}

/// Whether somebody has put something into standard input: a terminal, a device and a socket stay open for ever.
#[cfg(unix)]
fn is_piped() -> bool {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileTypeExt as _;
    let Ok(own) = std::io::stdin().as_fd().try_clone_to_owned() else {
        return false;
    };
    let Ok(meta) = fs::File::from(own).metadata() else {
        return false;
    };
    meta.file_type().is_fifo() || meta.is_file()
}

#[cfg(not(unix))]
fn is_piped() -> bool {
    !std::io::stdin().is_terminal()
}

fn stdin(notes: Notes) -> Result<String, Failure> {
    let (done, reading) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut input = std::io::stdin().lock().take(MAX_STDIN + 1);
        let read = input.read_to_end(&mut bytes).map(|_| bytes);
        // Nobody waits any more if the program is ending.
        done.send(read).ok();
    });
    let read = match reading.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => {
            notes.say("note: waiting for standard input to end; with `< /dev/null` nothing is read from it");
            reading.recv()
        }
        Err(RecvTimeoutError::Disconnected) => Ok(Ok(Vec::new())),
        Ok(read) => Ok(read),
    };
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => {
            let message = format!("could not read standard input: {error}");
            return Err(Failure::new("IO_ERROR", message));
        }
        Err(_) => Vec::new(),
    };
    if bytes.len() as u64 > MAX_STDIN {
        let message = format!("standard input is longer than {} MiB", MAX_STDIN >> 20);
        return Err(Failure::new("INVALID_PROMPT", message)
            .hint("put it into a file and let the agent read what it needs of it"));
    }
    String::from_utf8(bytes).map_err(|_| {
        Failure::new("INVALID_PROMPT", "standard input is not text in UTF-8")
            .hint("pictures are given with --image")
    })
}

fn image(path: &Path) -> Result<Image, Failure> {
    let refused = |reason: String| {
        Failure::new("INVALID_IMAGE", format!("`{}`: {reason}", path.display()))
            .hint("pictures are PNG, JPEG, WebP or GIF files")
    };
    let mut bytes = Vec::new();
    // What is no file may have no size, nor an end.
    let read =
        fs::File::open(path).and_then(|file| file.take(MAX_IMAGE + 1).read_to_end(&mut bytes));
    read.map_err(|error| refused(error.to_string()))?;
    if bytes.len() as u64 > MAX_IMAGE {
        return Err(refused(format!(
            "it is larger than {} MiB",
            MAX_IMAGE >> 20
        )));
    }
    let media_type = match imagesize::image_type(&bytes) {
        Ok(imagesize::ImageType::Png) => "image/png",
        Ok(imagesize::ImageType::Jpeg) => "image/jpeg",
        Ok(imagesize::ImageType::Webp) => "image/webp",
        Ok(imagesize::ImageType::Gif) => "image/gif",
        _ => {
            return Err(refused(
                "it is none of the pictures that can be sent".to_owned(),
            ));
        }
    };
    let size = imagesize::blob_size(&bytes)
        .map_err(|error| refused(format!("its size cannot be found: {error}")))?;
    if size.width == 0 || size.height == 0 {
        return Err(refused("it has no size".to_owned()));
    }
    Ok(Image {
        media_type,
        width: size.width as u64,
        height: size.height as u64,
        name: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
        bytes,
    })
}
