//! What has come, written to stdout by a thread of its own: a slow reader does not stop a receiver from
//! answering its parent.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use qsm_console::failure::Failure;
use serde_json::json;

use crate::base64;

/// Messages that wait to be written. Further ones are not acknowledged, so that the source waits.
const WAITING_MAX: usize = 1024;

/// Form of a message on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// With a line end.
    Lines,
    /// With its length in front.
    Frames,
    /// An object in a line.
    Json,
}

/// A message with its number.
pub(super) struct Message {
    pub(super) number: u64,
    pub(super) bytes: std::sync::Arc<[u8]>,
}

/// Room for a message, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Taken,
    Full,
    /// Nobody reads any more, or writing failed.
    Closed,
}

/// Writer of messages.
pub(super) struct Writer {
    put: SyncSender<Message>,
    thread: JoinHandle<io::Result<()>>,
}

impl Writer {
    pub(super) fn start(form: Form) -> Result<Self, Failure> {
        let (put, messages) = sync_channel::<Message>(WAITING_MAX);
        let builder = thread::Builder::new().name("stdout".to_owned());
        let thread = builder.spawn(move || {
            let mut stdout = io::stdout().lock();
            let mut text = Vec::new();
            while let Ok(message) = messages.recv() {
                text.clear();
                write(form, &message, &mut text);
                stdout.write_all(&text)?;
                stdout.flush()?;
            }
            Ok(())
        });
        let thread = thread.map_err(|error| Failure::io("start a thread", &error))?;
        Ok(Self { put, thread })
    }

    /// Takes a message if there is room.
    pub(super) fn put(&self, message: &Message) -> Room {
        let copy = Message {
            number: message.number,
            bytes: message.bytes.clone(),
        };
        match self.put.try_send(copy) {
            Ok(()) => Room::Taken,
            Err(TrySendError::Full(_)) => Room::Full,
            Err(TrySendError::Disconnected(_)) => Room::Closed,
        }
    }

    /// Waits until everything is written. That nobody reads it any more is no failure.
    pub(super) fn end(self) -> Result<(), Failure> {
        drop(self.put);
        match self.thread.join() {
            Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::io("write to stdout", &error))
            }
            _ => Ok(()),
        }
    }
}

fn write(form: Form, message: &Message, out: &mut Vec<u8>) {
    let bytes = &message.bytes[..];
    match form {
        Form::Lines => {
            out.extend_from_slice(bytes);
            out.push(b'\n');
        }
        Form::Frames => {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(bytes);
        }
        Form::Json => {
            let (number, size) = (message.number, bytes.len());
            let object = match std::str::from_utf8(bytes) {
                Ok(text) => json!({ "number": number, "size": size, "text": text }),
                Err(_) => {
                    json!({ "number": number, "size": size, "base64": base64::encode(bytes) })
                }
            };
            out.extend_from_slice(object.to_string().as_bytes());
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_form_that_was_asked_for() {
        let written = |form, bytes: &[u8]| {
            let mut out = Vec::new();
            let message = Message {
                number: 7,
                bytes: bytes.into(),
            };
            write(form, &message, &mut out);
            out
        };
        assert_eq!(written(Form::Lines, b"ab"), b"ab\n");
        assert_eq!(written(Form::Frames, b"ab"), b"\x02\0\0\0ab");
        let text = b"{\"number\":7,\"size\":2,\"text\":\"ab\"}\n";
        assert_eq!(written(Form::Json, b"ab"), text);
        let bytes = written(Form::Json, b"\xff");
        assert!(
            String::from_utf8(bytes)
                .unwrap()
                .contains("\"base64\":\"/w==\"")
        );
    }
}
