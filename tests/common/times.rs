//! The wall and CPU seconds of scenarios, for the table that the gate prints (`scripts/steps`).

use std::cell::Cell;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Instant;

thread_local! {
    /// CPU seconds of the processes that this thread's scenario has waited for.
    static OF_PROCESSES: Cell<f64> = const { Cell::new(0.0) };
}

/// Runs from the start of a scenario to its end. Then it appends a line to the file that OPTLOOP_TEST_TIMES names: wall
/// seconds, CPU seconds and the name of the scenario.
pub struct Stopwatch {
    started: Instant,
    used_s: f64,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { started: Instant::now(), used_s: used_s() }
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        let Some(path) = std::env::var_os("OPTLOOP_TEST_TIMES") else { return };
        let (wall_s, cpu_s) = (self.started.elapsed().as_secs_f64(), used_s() - self.used_s);
        let thread = std::thread::current();
        let line = format!("{wall_s:.2} {cpu_s:.2} {}\n", thread.name().unwrap_or("main"));
        // A table of times is no reason for a scenario to fail.
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// Returns the CPU seconds of this thread, and of the processes that it has waited for in this module.
fn used_s() -> f64 {
    let thread = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    thread.tv_sec as f64 + thread.tv_nsec as f64 * 1e-9 + OF_PROCESSES.get()
}

/// Runs a command, as `Command::output` does.
pub fn output(command: &mut Command) -> Output {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| err.read_to_end(&mut stderr).unwrap());
        out.read_to_end(&mut stdout).unwrap();
    });
    Output { status: wait(&mut child), stdout, stderr }
}

/// Waits for a process.
pub fn wait(child: &mut Child) -> ExitStatus {
    OF_PROCESSES.set(OF_PROCESSES.get() + cpu_s_at_the_end(child.id()).unwrap_or_default());
    child.wait().unwrap()
}

/// Waits for the end of a process, and returns the CPU seconds of it and of all processes that it has waited for. The kernel
/// keeps them until its parent asks for its status.
#[cfg(target_os = "linux")]
fn cpu_s_at_the_end(id: u32) -> Option<f64> {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let pid = Pid::from_raw(i32::try_from(id).ok()?)?;
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may contain spaces. Fields 14 to 17 are user, system, and both of children, in ticks.
    let ticks = stat.rsplit_once(") ")?.1.split(' ').skip(11).take(4);
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(not(target_os = "linux"))]
fn cpu_s_at_the_end(_: u32) -> Option<f64> {
    None
}
