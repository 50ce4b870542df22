//! Messages in a byte stream: length-framed (`--frames`), one for each line, or one for all of it.
//!
//! A frame is the length as unsigned 32-bit little-endian integer, then that many bytes.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// Longest message read from a stream, bytes: the default of the library's limit. A longer one is
/// refused before it is in memory.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// How messages are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Each line is a message, without its end.
    Lines,
    /// Length-framed.
    Frames,
    /// All there is, is one message.
    Whole,
}

/// Reads messages from a stream.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    input: R,
    framing: Framing,
    /// The message being read, kept for its memory.
    message: Vec<u8>,
    /// Bytes consumed, to say where something is wrong.
    offset: u64,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub(crate) fn new(input: R, framing: Framing) -> Self {
        Self {
            input,
            framing,
            message: Vec::new(),
            offset: 0,
            ended: false,
        }
    }

    /// The next message, `None` at the end.
    ///
    /// # Errors
    /// What reading returned; `UnexpectedEof` for a frame cut short; `InvalidData` for a message
    /// longer than [`MESSAGE_BYTES_MAX`].
    pub(crate) fn next_message(&mut self) -> io::Result<Option<&[u8]>> {
        if self.ended {
            return Ok(None);
        }
        self.message.clear();
        let found = match self.framing {
            Framing::Lines => self.read_line()?,
            Framing::Frames => self.read_frame()?,
            Framing::Whole => self.read_whole()?,
        };
        Ok(found.then_some(&self.message))
    }

    fn read_line(&mut self) -> io::Result<bool> {
        // One more than allowed, and its end.
        let most = MESSAGE_BYTES_MAX as u64 + 1;
        let read = self
            .input
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut self.message)?;
        let ended = self.message.last() == Some(&b'\n');
        if ended {
            self.message.pop();
        } else if self.message.len() > MESSAGE_BYTES_MAX {
            return Err(self.too_long("line"));
        }
        self.offset += read as u64;
        Ok(read > 0)
    }

    fn read_frame(&mut self) -> io::Result<bool> {
        let mut length = [0; 4];
        let mut have = 0;
        while have < length.len() {
            match self.input.read(&mut length[have..]) {
                Ok(0) if have == 0 => return Ok(false),
                Ok(0) => return Err(self.cut_short()),
                Ok(read) => have += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let length = u64::from(u32::from_le_bytes(length));
        if length > MESSAGE_BYTES_MAX as u64 {
            return Err(self.too_long("frame"));
        }
        let read = self
            .input
            .by_ref()
            .take(length)
            .read_to_end(&mut self.message)? as u64;
        if read < length {
            return Err(self.cut_short());
        }
        self.offset += 4 + length;
        Ok(true)
    }

    fn read_whole(&mut self) -> io::Result<bool> {
        let most = MESSAGE_BYTES_MAX as u64 + 1;
        self.input
            .by_ref()
            .take(most)
            .read_to_end(&mut self.message)?;
        if self.message.len() > MESSAGE_BYTES_MAX {
            return Err(self.too_long("input"));
        }
        self.ended = true;
        Ok(true)
    }

    fn cut_short(&self) -> io::Error {
        let text = format!("the frame at byte {} is cut short", self.offset);
        io::Error::new(ErrorKind::UnexpectedEof, text)
    }

    fn too_long(&self, what: &str) -> io::Error {
        too_long(what, self.offset)
    }
}

/// The error of what is too long for a message.
pub(crate) fn too_long(what: &str, offset: u64) -> io::Error {
    let text = format!(
        "the {what} at byte {offset} is longer than a message may be: {MESSAGE_BYTES_MAX} bytes"
    );
    io::Error::new(ErrorKind::InvalidData, text)
}

impl<R: Read> Reader<BufReader<R>> {
    /// Whether some of what comes next has been read already.
    pub(crate) fn has_buffered(&self) -> bool {
        !self.input.buffer().is_empty()
    }
}

/// Appends a frame; false, and nothing is appended, if the message is too long for the format.
pub(crate) fn append_frame(message: &[u8], to: &mut Vec<u8>) -> bool {
    let Ok(length) = u32::try_from(message.len()) else {
        return false;
    };
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(message);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(input: &[u8], framing: Framing) -> io::Result<Vec<Vec<u8>>> {
        let mut reader = Reader::new(input, framing);
        let mut all = Vec::new();
        while let Some(message) = reader.next_message()? {
            all.push(message.to_vec());
        }
        Ok(all)
    }

    #[test]
    fn lines_lose_their_ends_and_the_last_may_have_none() {
        let lines = read_all(b"one\n\nthree\r\nlast", Framing::Lines).unwrap();
        assert_eq!(lines, [&b"one"[..], b"", b"three\r", b"last"]);
        assert!(read_all(b"", Framing::Lines).unwrap().is_empty());
    }

    #[test]
    fn frames_come_back_as_they_were_written() {
        let messages = [&b"one"[..], b"", b"line\nwith end", &[0; 70_000]];
        let mut stream = Vec::new();
        for message in messages {
            assert!(append_frame(message, &mut stream));
        }
        assert_eq!(read_all(&stream, Framing::Frames).unwrap(), messages);
    }

    #[test]
    fn a_frame_cut_anywhere_is_an_error_that_says_where() {
        let mut stream = Vec::new();
        append_frame(b"first", &mut stream);
        append_frame(b"second", &mut stream);
        for end in 10..stream.len() {
            let error = read_all(&stream[..end], Framing::Frames).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            assert!(error.to_string().contains("at byte 9"), "{error}");
        }
    }

    #[test]
    fn a_frame_that_claims_too_much_is_refused_before_it_is_read() {
        let error = read_all(&u32::MAX.to_le_bytes(), Framing::Frames).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn the_whole_input_is_one_message_up_to_the_limit() {
        assert_eq!(read_all(b"a\nb", Framing::Whole).unwrap(), [b"a\nb"]);
        assert_eq!(read_all(b"", Framing::Whole).unwrap(), [b""]);
        let largest = vec![7; MESSAGE_BYTES_MAX];
        assert_eq!(
            read_all(&largest, Framing::Whole).unwrap()[0].len(),
            largest.len()
        );
        let larger = vec![7; MESSAGE_BYTES_MAX + 1];
        for framing in [Framing::Whole, Framing::Lines] {
            let error = read_all(&larger, framing).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{framing:?}");
        }
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_a_message() {
        let mut line = vec![7; MESSAGE_BYTES_MAX];
        line.push(b'\n');
        assert_eq!(read_all(&line, Framing::Lines).unwrap().len(), 1);
    }
}
