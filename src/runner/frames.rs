//! Framed messages between processes, over any byte stream.
//!
//! A frame is its length as four little-endian bytes, then that many bytes of MessagePack.

use std::io::{self, Read, Write};
use std::sync::mpsc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::secrets;

/// The longest frame. A CUBIN with its PTX is below 1 MiB; anything near this is garbage.
pub const MAX_FRAME_BYTES: usize = 64 << 20;

/// Writes one frame.
pub fn write_frame(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&encode(message)?)?;
    stream.flush()
}

/// Reads one frame. `Ok(None)` says that the stream has ended between two frames.
pub fn read_frame<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut payload = vec![0; checked_length(length)?];
    stream.read_exact(&mut payload)?;
    decode(&payload).map(Some)
}

/// Reads requests from standard input on a thread of their own, which ends the process with the input.
///
/// So a child process never outlives its parent, not even one that was killed while a kernel or a compilation hangs.
pub fn requests_from_stdin<T: DeserializeOwned + Send + 'static>() -> mpsc::Receiver<T> {
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Ok(Some(request)) = read_frame(&mut input) {
            if sender.send(request).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    requests
}

/// Encodes a message with its length in front.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let payload = rmp_serde::to_vec_named(message).map_err(io::Error::other)?;
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    Ok([length.to_le_bytes().as_slice(), &payload].concat())
}

/// Decodes the payload of a frame, with secrets masked that the process at the other end has got hold of.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
    rmp_serde::from_slice(&secrets::mask_bytes(payload))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads a frame's length, refusing one that no message has.
pub fn checked_length(length: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::worker::protocol::{Reply, Request};
    use proptest::prelude::*;

    #[test]
    fn frames_come_back_one_by_one_until_the_end() {
        let mut stream = Vec::new();
        for doing in ["load", "check"] {
            let reply = Reply::Step { case: "b1h1s64".to_owned(), doing: doing.to_owned() };
            write_frame(&mut stream, &reply).unwrap();
        }
        let mut stream = stream.as_slice();
        for expected in ["load", "check"] {
            match read_frame(&mut stream).unwrap() {
                Some(Reply::Step { doing, .. }) => assert_eq!(doing, expected),
                other => panic!("{other:?}"),
            }
        }
        assert!(read_frame::<Reply>(&mut stream).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_frame::<Reply>(&mut bytes.as_slice());
            let _ = decode::<Request>(&bytes);
        }
    }
}
