use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::runner::messages::{WorkerReply, WorkerRequest};

fn step(doing: &str) -> WorkerReply {
    WorkerReply::Step { case: "b1h1s64".into(), doing: doing.to_owned() }
}

/// Reads the first frame with both readers, which must agree.
fn read_both(bytes: &[u8]) -> Result<Option<WorkerReply>, FrameError> {
    let now = read::<WorkerReply>(&mut Cursor::new(bytes));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let later = runtime.block_on(read_async::<WorkerReply>(&mut Cursor::new(bytes)));
    assert_eq!(format!("{now:?}"), format!("{later:?}"));
    now
}

fn refused(bytes: &[u8]) -> String {
    read_both(bytes).unwrap_err().to_string()
}

#[test]
fn frames_come_back_one_by_one_until_the_end() {
    let mut stream = Vec::new();
    for doing in ["load", "check"] {
        write(&mut stream, &step(doing)).unwrap();
    }
    let mut stream = stream.as_slice();
    for expected in ["load", "check"] {
        match read(&mut stream).unwrap() {
            Some(WorkerReply::Step { doing, .. }) => assert_eq!(doing, expected),
            other => panic!("{other:?}"),
        }
    }
    assert!(read::<WorkerReply>(&mut stream).unwrap().is_none());
}

#[test]
fn foreign_bytes_are_described_in_one_sentence() {
    let frame = encode(&step("check")).unwrap();
    insta::assert_snapshot!(refused(b"hello from a kernel's printf, which goes on for a while\n"), @"the pipe contains data that is not a frame: `hello from a kernel's printf, wh`");
    insta::assert_snapshot!(refused(b"hi\n"), @"the pipe contains data that is not a frame: `hi`");
    insta::assert_snapshot!(refused(&frame[..7]), @"the pipe ended in the middle of a frame, after 7 of 32 bytes of its header");
    insta::assert_snapshot!(refused(&frame[..40]), @"the pipe ended in the middle of a frame, after 8 of 32 bytes of its payload");

    let mut damaged = frame.clone();
    damaged[9] ^= 0x10;
    insta::assert_snapshot!(refused(&damaged), @"the header of a frame is damaged: its checksum does not match");
    let mut damaged = frame.clone();
    damaged[40] ^= 0x10;
    insta::assert_snapshot!(refused(&damaged), @"the payload of a frame is damaged: its checksum does not match");

    let with = |at: usize, number: u32| {
        let mut header = frame.clone();
        header[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let check = digest::<4>(&header[..28]);
        header[28..32].copy_from_slice(&check);
        header
    };
    let other = format!("the other side speaks version 3 of the protocol, but this one {VERSION}: ");
    assert_eq!(refused(&with(4, 3)), other + "optloop was replaced while it ran, so start it again");
    insta::assert_snapshot!(refused(&with(8, 3 << 30)), @"a frame of 3221225472 bytes is longer than any message");
    let other = encode(&"a sentence").unwrap();
    assert!(refused(&other).starts_with("a frame does not contain a message: "), "{}", refused(&other));
}

/// A stream that ends with its bytes and records how large a reader's buffers were.
struct Short<'a> {
    bytes: &'a [u8],
    largest: usize,
}

impl Read for Short<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.largest = self.largest.max(buffer.len());
        Read::read(&mut self.bytes, buffer)
    }
}

#[test]
fn a_long_frame_takes_memory_only_as_it_comes() {
    let mut frame = encode(&step("check")).unwrap();
    frame[8..12].copy_from_slice(&MAX_PAYLOAD_BYTES.to_le_bytes());
    let check = digest::<4>(&frame[..28]);
    frame[28..32].copy_from_slice(&check);
    let mut stream = Short { bytes: &frame, largest: 0 };
    assert!(matches!(read::<WorkerReply>(&mut stream), Err(FrameError::Truncated { part: "payload", .. })));
    assert!(stream.largest <= 1 << 16, "{} bytes at once", stream.largest);
}

proptest! {
    #[test]
    fn any_change_of_any_byte_is_an_error(doing in "[a-z]{0,40}", at in any::<prop::sample::Index>(), bits in 1_u8..) {
        let mut frame = encode(&step(&doing)).unwrap();
        let at = at.index(frame.len());
        frame[at] ^= bits;
        prop_assert!(read_both(&frame).is_err(), "byte {at} of {}", frame.len());
    }

    #[test]
    fn any_cut_is_an_error(doing in "[a-z]{0,40}", at in any::<prop::sample::Index>()) {
        let frame = encode(&step(&doing)).unwrap();
        let at = at.index(frame.len());
        prop_assert_eq!(read_both(&frame[..at]).is_err(), at > 0);
    }

    #[test]
    fn anything_in_between_is_an_error(chatter in prop::collection::vec(any::<u8>(), 1..50)) {
        let frame = encode(&step("check")).unwrap();
        let mut stream = Cursor::new([frame.as_slice(), &chatter, &frame].concat());
        prop_assert!(read::<WorkerReply>(&mut stream).unwrap().is_some());
        prop_assert!(read::<WorkerReply>(&mut stream).is_err());
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
        prop_assert!(read_both(&bytes).is_err());
        // An attacker could compute a valid checksum.
        let header = Header { length: bytes.len() as u32, digest: digest::<16>(&bytes) };
        let _ = header.decode::<WorkerReply>(&bytes);
        let _ = header.decode::<WorkerRequest>(&bytes);
    }
}
