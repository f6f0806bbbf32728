//! How many variants a minute a session tries on eight devices, against one.
//!
//! `cargo bench --bench lanes` runs two sessions on the fake device. Each screening run takes 1 s, and the sources are PTX, so
//! nothing is compiled. Limits are checked: 7 times as many variants a minute, and less than a core for the session's process. It
//! needs idle cores: while other builds kept two cores busy, a development build tried 6.9 to 7.4 times as many (2026-11-30).

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::Stdio;

use common::Sandbox;
use serde_json::Value;

/// The devices of the second session.
const DEVICES: usize = 8;

/// The least that so many devices try, in variants a minute of one.
const LEAST: f64 = 7.0;

/// The budget of a session. Its start and its end take some seconds.
const BUDGET: &str = "90s";

/// Ticks per second of the times in `/proc/PID/stat`. Linux shows them to programs in hundredths, whatever its own tick.
const TICKS_PER_S: f64 = 100.0;

const SOURCE: &str = "
.version 8.0
.target sm_90a
.address_size 64
// <$ TILE $> <$ THREADS $> <$ PAD $> <$ FILL $> <$ FAULT $> <$ D $>
.visible .entry toy(.param .u64 q, .param .u64 k, .param .u64 v, .param .u64 o, .param .u32 Sq, .param .f32 scale, .param .u32 fault)
{
    ret;
}
";

fn main() {
    let (one, _) = session(1);
    let (several, cores) = session(DEVICES);
    println!("1 device: {one:.0} variants a minute; {DEVICES}: {several:.0}, {:.2} times as many", several / one);
    println!("the session's process used {cores:.2} cores");
    assert!(several >= LEAST * one, "{DEVICES} devices try fewer than {LEAST} times as many variants");
    assert!(cores < 1.0, "the session's process needs more than a core");
}

/// Runs a session. Returns its variants a minute, and the cores that its process used.
fn session(devices: usize) -> (f64, f64) {
    let sandbox = project();
    let device = format!("fake*{devices}");
    let mut command = sandbox.command(&["start", "--workload", "small", "--case", "s64", "--seed", "1", "--json"]);
    let command = command.args(["--device", &device, "--budget", BUDGET, "--no-stop"]);
    let mut child =
        command.env("OPTLOOP_FAKE_SCREENING_MS", "1000").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut cpu_s = 0.0;
    let events = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut last = Value::Null;
    for event in events.map_while(Result::ok) {
        cpu_s = cpu_of(child.id()).unwrap_or(cpu_s);
        last = serde_json::from_str(&event).unwrap();
    }
    assert!(child.wait().unwrap().success());
    let (iterations, wall_s) = (last["iterations"].as_f64().unwrap(), last["wall_s"].as_f64().unwrap());
    (60.0 * iterations / wall_s, cpu_s / wall_s)
}

/// Makes a project whose family has thousands of configurations.
fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    let values: Vec<String> = (0..16).map(|value| value.to_string()).collect();
    let parameter = |name: &str| {
        format!(
            "[params.{name}]\nvalues = [{}]\ndefault = 0\nabout = \"nothing\"\nexpect = [0.9, 1.1]\n",
            values.join(", ")
        )
    };
    let manifest =
        common::MANIFEST.replace("[params.FAULT]", &format!("{}{}[params.FAULT]", parameter("PAD"), parameter("FILL")));
    sandbox.write("templates/kernels/toy/family.toml", &manifest);
    sandbox.write("templates/kernels/toy/kernel.cu.tera", SOURCE);
    sandbox.git(&["commit", "-qam", "a family of PTX"]);
    sandbox
}

/// Returns the processor time of a process without its children, in seconds.
fn cpu_of(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / TICKS_PER_S)
}
