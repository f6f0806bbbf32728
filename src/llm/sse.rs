//! Server-sent events (WHATWG HTML, 9.2.6), as far as the two APIs use them: the fields `event` and `data`.

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its type; empty if it has none.
    pub name: String,
    /// Its data.
    pub data: String,
}

/// A line or an event is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Splits a stream of bytes into events.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    line: Vec<u8>,
    ended_with_cr: bool,
    event: Event,
    has_data: bool,
    most_bytes: usize,
}

impl Decoder {
    /// Makes a decoder that refuses an event of more than `most_bytes`.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, ..Self::default() }
    }

    /// Takes the next bytes and returns the events that they complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let ends_crlf = byte == b'\n' && std::mem::take(&mut self.ended_with_cr);
            match byte {
                b'\n' if ends_crlf => {}
                b'\n' | b'\r' => {
                    self.ended_with_cr = byte == b'\r';
                    events.extend(self.end_line());
                }
                _ => {
                    self.ended_with_cr = false;
                    self.line.push(byte);
                }
            }
            if self.line.len() + self.event.data.len() > self.most_bytes {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    /// Returns the event that an empty line completes.
    fn end_line(&mut self) -> Option<Event> {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.name = value.to_owned(),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            // Comments, and fields for reconnecting.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        ": hi\r\nevent: a\r\ndata: {\"x\":\"\u{e9}\"}\r\n\r\ndata:1\ndata: 2\nid: 7\n\nevent: none\n\ndata: [DONE]\n\n";

    fn expected() -> Vec<Event> {
        let event = |name: &str, data: &str| Event { name: name.to_owned(), data: data.to_owned() };
        vec![event("a", "{\"x\":\"\u{e9}\"}"), event("", "1\n2"), event("", "[DONE]")]
    }

    #[test]
    fn events_do_not_depend_on_how_the_stream_is_cut() {
        for size in 1..STREAM.len() {
            let mut decoder = Decoder::new(100);
            let events = STREAM.as_bytes().chunks(size).flat_map(|piece| decoder.take(piece).unwrap());
            assert_eq!(events.collect::<Vec<_>>(), expected(), "pieces of {size} bytes");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        assert_eq!(Decoder::new(100).take(&[b'x'; 101]), Err(TooLong));
        let lines = "data: 12345678\n".repeat(20);
        assert_eq!(Decoder::new(100).take(lines.as_bytes()), Err(TooLong));
    }
}
