//! Says what is under way when a verb has said nothing for a while. A session has its own events for that.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::notices::say;
use crate::runner::activity::{self, ReportInterval};

/// A thread that reports long steps until this is dropped. A thread, because some steps block the runtime's own.
pub struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts to report.
    pub fn start() -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let (interval, mut last) = (ReportInterval::default(), Instant::now());
            while stopped.recv_timeout(interval.period() / 10) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                if let Some(steps) = activity::under_way().filter(|steps| interval.is_due(last, steps, now)) {
                    say(&steps.line(now));
                    last = now;
                }
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs a verb, and says what is under way when it takes long.
pub async fn aloud<T>(verb: impl Future<Output = T>) -> T {
    let _ticker = Ticker::start();
    verb.await
}
