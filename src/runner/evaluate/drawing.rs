//! Data drawn by another thread ahead of its use. An oracle takes longer than all the work on the device, which would
//! otherwise wait for it (docs/measuring).

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use super::data::Data;
use super::stock::DataKey;
use crate::runner::device::Problem;

type Task = Box<dyn FnOnce() + Send>;

/// Data that a thread of its own draws, one after the other.
pub struct Ahead {
    /// In the order in which they were begun.
    drawings: RefCell<Vec<Drawing>>,
    /// Ends the thread when it is dropped, once what was begun is drawn.
    tasks: Sender<Task>,
}

/// Data that is being drawn or ready.
struct Drawing {
    key: DataKey,
    /// Size of the problem's tensors.
    bytes: usize,
    drawn: Receiver<thread::Result<Result<Data, String>>>,
}

impl Ahead {
    /// Starts the thread.
    pub fn start() -> Self {
        let (tasks, queue) = mpsc::channel::<Task>();
        thread::spawn(move || queue.into_iter().for_each(|task| task()));
        Self { drawings: RefCell::default(), tasks }
    }

    /// Has the thread draw data, unless there is some with this key. `draw` returns the oracle's error. The oldest data is
    /// given up if all of it has more than `most_bytes`.
    pub fn begin(
        &self,
        key: DataKey,
        problem: &Problem<'_>,
        most_bytes: usize,
        draw: impl FnOnce(&Problem<'_>) -> Result<Data, String> + Send + 'static,
    ) {
        let mut drawings = self.drawings.borrow_mut();
        if drawings.iter().any(|other| other.key == key) {
            return;
        }
        let bytes = problem.bytes();
        while !drawings.is_empty() && drawings.iter().map(|other| other.bytes).sum::<usize>() + bytes > most_bytes {
            drawings.remove(0);
        }
        let Problem { op, dims, dtype, compute } = *problem;
        let (dims, (done, drawn)) = (dims.clone(), mpsc::channel());
        let task = move || {
            let drawn = catch_unwind(AssertUnwindSafe(|| draw(&Problem { op, dims: &dims, dtype, compute })));
            // It may have been given up.
            let _ = done.send(drawn);
        };
        // The thread does not end before this.
        let _ = self.tasks.send(Box::new(task));
        drawings.push(Drawing { key, bytes, drawn });
    }

    /// Waits for the data of a key that was begun. `None` if there is none. The error is the oracle's.
    pub fn take(&self, key: &DataKey) -> Option<Result<Data, String>> {
        let mut drawings = self.drawings.borrow_mut();
        let place = drawings.iter().position(|drawing| drawing.key == *key)?;
        let drawn = drawings.remove(place).drawn.recv();
        Some(match drawn {
            Ok(drawn) => drawn.unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => Err("the thread that draws inputs has ended".to_owned()),
        })
    }
}
