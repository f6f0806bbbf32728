//! What the child processes of optloop have in common: how they hear, how they speak, and how they end.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::frames::{self, Message};
use crate::secrets;

/// How much of what a child says on standard error is kept: its last line is in there.
const TAIL_BYTES: usize = 4096;

/// The longest sentence of a child that is passed on: what is longer is a dump.
const MAX_SENTENCE_CHARS: usize = 300;

/// Reads requests from standard input on a thread of their own, which ends the process with the input.
///
/// So a child never outlives its parent, however that ended, not even a child in which a kernel or a compilation hangs.
/// Requests to stop are for the session to hear: this process ends with its input and in no other way.
pub fn requests<T: Message + DeserializeOwned + Send + 'static>() -> mpsc::Receiver<T> {
    outlast_stops();
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            match frames::read(&mut input) {
                Ok(Some(request)) => {
                    if sender.send(request).is_err() {
                        end();
                    }
                }
                Ok(None) => end(),
                Err(error) => {
                    // The supervisor hears it as this process's last words, if it is there.
                    let _ = writeln!(io::stderr(), "{error}");
                    end();
                }
            }
        }
    });
    requests
}

/// Has Ctrl-C, SIGTERM and SIGHUP no longer end this process, up to an `exec`.
///
/// A supervisor of services signals every process of a group, not the session alone. A child that died of it would be taken for one
/// that a variant took down. While NVRTC compiles, its front end has SIGINT and SIGTERM for itself: of these a compiler dies then.
pub fn outlast_stops() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Once listened to, a signal has lost its effect for good, even when nobody listens any more.
        let Ok(listener) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        let _entered = listener.enter();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            // One that cannot be listened to keeps its effect.
            drop(signal(kind));
        }
    }
}

/// Returns where replies go: what was standard output. From then on, standard output is standard error.
///
/// A kernel's printf, a library's notice: whoever prints in this process does not speak for it.
pub fn replies() -> io::Result<File> {
    #[cfg(unix)]
    {
        let pipe = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(File::from(pipe))
    }
    #[cfg(not(unix))]
    Err(io::Error::other("child processes need a Unix system"))
}

/// Lets this process have so much address space, and no more: an allocation beyond it fails.
pub fn limit_memory(bytes: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        // What an administrator has set lower stays.
        let most = getrlimit(Resource::As).maximum.map_or(bytes, |most| most.min(bytes));
        setrlimit(Resource::As, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Ends this process at once, by SIGKILL.
///
/// `exit` would run the exit handlers of every library in here first, and the CUDA driver's waits for the kernels in its
/// context: for one that never ends, forever.
pub fn end() -> ! {
    #[cfg(unix)]
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

/// The end of what somebody says.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn hear(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        // Before anything is cut off: half a secret would not be known for one.
        if let Cow::Owned(masked) = secrets::mask_bytes(&self.0) {
            self.0 = masked;
        }
        let surplus = self.0.len().saturating_sub(TAIL_BYTES);
        self.0.drain(..surplus);
    }

    fn last_line(&self) -> String {
        let lines = self.0.split(|byte| *byte == b'\n' || *byte == b'\r');
        let last = lines.map(<[u8]>::trim_ascii).rfind(|line| !line.is_empty()).unwrap_or_default();
        sentence(&String::from_utf8_lossy(last))
    }
}

/// Reads a child's standard error to its end, so that it never fills up, and returns its last line.
pub async fn last_line(mut errors: impl AsyncRead + Unpin) -> String {
    let (mut tail, mut buffer) = (Tail::default(), [0; 1024]);
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        tail.hear(&buffer[..read]);
    }
    tail.last_line()
}

/// The same, on a thread that has nothing else to do.
pub fn last_line_blocking(mut errors: impl Read) -> String {
    let (mut tail, mut buffer) = (Tail::default(), [0; 1024]);
    while let Ok(read @ 1..) = errors.read(&mut buffer) {
        tail.hear(&buffer[..read]);
    }
    tail.last_line()
}

/// Cuts what a program says down to one line of bearable length, without what would move a terminal's cursor.
pub fn sentence(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(MAX_SENTENCE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_kept_of_however_much() {
        assert_eq!(last_line_blocking(&b"first\n\nlast words\n \r\n"[..]), "last words");
        assert_eq!(last_line_blocking(&b""[..]), "");
        let endless = [b"x".repeat(1 << 20), b"\nthe end".to_vec()].concat();
        assert_eq!(last_line_blocking(&endless[..]), "the end");
        assert_eq!(last_line_blocking(&b"y".repeat(1 << 20)[..]).len(), MAX_SENTENCE_CHARS);
        assert_eq!(last_line_blocking(&b"\x1b[2Jred\n"[..]), "[2Jred");
    }
}
