//! How many variants a minute a session tries on several devices, against one.
//!
//! `cargo bench --bench lanes [-- DEVICES]` runs two sessions on the fake device, one of them with 8 devices or as many as are named.
//! Each screening run takes 1 s, and the sources are PTX, so nothing is compiled. Limits are checked: 7 times as many variants a
//! minute with 8 devices, 50 with 64, and less than a core for the session's process. It needs idle cores.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::Stdio;

use common::Sandbox;
use serde_json::Value;

/// The devices of the second session, unless a number is given.
const DEVICES: usize = 8;

/// The least that some number of devices try, in variants a minute of one.
const LEAST: [(usize, f64); 2] = [(8, 7.0), (64, 50.0)];

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
    let given = std::env::args().skip(1).find(|argument| argument != "--bench");
    let devices = given.map_or(DEVICES, |given| given.parse().expect("a number of devices"));
    let (one, _) = session(1);
    let (several, cores) = session(devices);
    println!("1 device: {one:.0} variants a minute; {devices}: {several:.0}, {:.2} times as many", several / one);
    println!("the session's process used {cores:.2} cores");
    if let Some((_, least)) = LEAST.iter().find(|(of, _)| *of == devices) {
        assert!(several >= least * one, "{devices} devices try fewer than {least} times as many variants");
    }
    assert!(cores < 1.0, "the session's process needs more than a core");
}

/// Runs a session. Returns its variants a minute, and the cores that its process used.
fn session(devices: usize) -> (f64, f64) {
    let sandbox = project();
    let device = format!("fake*{devices}");
    let mut command = sandbox.command(&["start", "--workload", "small", "--case", "s64", "--seed", "1", "--json"]);
    let command = command.args(["--device", &device, "--budget", BUDGET, "--no-early-stop"]);
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

/// Makes a project whose family has tens of thousands of configurations.
fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    let values: Vec<String> = (0..64).map(|value| value.to_string()).collect();
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
