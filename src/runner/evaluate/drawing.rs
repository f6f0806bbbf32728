//! Data drawn by other threads ahead of its use. An oracle takes longer than all the work on the device, which would
//! otherwise wait for it (docs/measuring).

use std::cell::RefCell;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use super::data::{Data, DataKey};
use crate::error::{Error, Result};
use crate::runner::device::Problem;

type Task = Box<dyn FnOnce() + Send>;

/// Data that threads of its own draw.
pub struct Ahead {
    /// In the order in which they were begun.
    drawings: RefCell<Vec<Drawing>>,
    /// Ends the threads when it is dropped, once what was begun is drawn.
    tasks: Sender<Task>,
}

/// Data that is being drawn or ready.
struct Drawing {
    key: DataKey,
    /// Size of the problem's tensors.
    bytes: usize,
    drawn: Receiver<thread::Result<Result<Data>>>,
}

impl Ahead {
    /// Starts so many threads.
    pub fn start(threads: usize) -> Self {
        let (tasks, queue) = mpsc::channel::<Task>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let queue = Arc::clone(&queue);
            let next = move || queue.lock().ok()?.recv().ok();
            thread::spawn(move || iter::from_fn(next).for_each(|task| task()));
        }
        Self { drawings: RefCell::default(), tasks }
    }

    /// Has a thread draw data, unless `most` drawings of this key are ready or under way. `draw` returns the oracle's error.
    ///
    /// All data together has at most `most_bytes`. The first data of a key replaces the oldest of others. A second one is
    /// not drawn if there is no room.
    pub fn begin(
        &self,
        (key, most): (DataKey, usize),
        problem: &Problem<'_>,
        most_bytes: usize,
        draw: impl FnOnce(&Problem<'_>) -> Result<Data> + Send + 'static,
    ) {
        let mut drawings = self.drawings.borrow_mut();
        let alike = drawings.iter().filter(|other| other.key == key).count();
        if alike >= most {
            return;
        }
        let bytes = problem.bytes();
        while drawings.iter().map(|other| other.bytes).sum::<usize>() + bytes > most_bytes && !drawings.is_empty() {
            if alike > 0 {
                return;
            }
            drawings.remove(0);
        }
        let Problem { op, dims, dtype, compute } = *problem;
        let (dims, (done, drawn)) = (dims.clone(), mpsc::channel());
        let task = move || {
            let drawn = catch_unwind(AssertUnwindSafe(|| draw(&Problem { op, dims: &dims, dtype, compute })));
            // It may have been given up.
            let _ = done.send(drawn);
        };
        // The threads do not end before this.
        let _ = self.tasks.send(Box::new(task));
        drawings.push(Drawing { key, bytes, drawn });
    }

    /// Waits for the data of a key, the one that was begun first. `None` if none was. The error is the oracle's.
    pub fn take(&self, key: &DataKey) -> Option<Result<Data>> {
        let mut drawings = self.drawings.borrow_mut();
        let place = drawings.iter().position(|drawing| drawing.key == *key)?;
        let drawn = drawings.remove(place).drawn.recv();
        Some(match drawn {
            Ok(drawn) => drawn.unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => Err(Error::new("the threads that draw inputs have ended")),
        })
    }
}
