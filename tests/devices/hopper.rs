//! Launch features of Hopper GPUs: tensor maps, clusters, and a start before the previous launch has ended.
//!
//! Attention to a single key copies its value, for any query and key. So every kernel here copies in its own way, and
//! the device checks the copies as it checks attention.

use optloop::domain::device::regime::Regime;
use optloop::domain::family::Family;
use optloop::domain::measurement::evaluation::{Evaluation, Outcome};
use optloop::domain::workload::Case;

use super::bench::Bench;

/// 74 rows of 72: boxes of 32 rows of 64 leave both ends of the tensor.
const HEADS: i64 = 37;

/// Loads boxes through a map with a swizzle and stores them through one without.
const BOXES: &str = r#"
[[tensor_map]]
name = "from"
tensor = "v"
sizes = ["D", "B * H"]
strides = ["D"]
box = ["64", "32"]
swizzle = 128
[[tensor_map]]
name = "to"
tensor = "o"
sizes = ["D", "B * H"]
strides = ["D"]
box = ["64", "32"]
[[launch]]
kernel = "copy_boxes"
grid = ["ceil_div(B * H, 32)", "ceil_div(D, 64)"]
block = ["128"]
args = ["from", "to", "ROWS"]
"#;

/// Two blocks of a cluster each load half of a box, for both.
const CLUSTER: &str = r#"
[[tensor_map]]
name = "from"
tensor = "v"
sizes = ["D", "B * H"]
strides = ["D"]
box = ["64", "16"]
swizzle = 128
[[launch]]
kernel = "share_boxes"
grid = ["2 * ceil_div(B * H, 32)", "ceil_div(D, 64)"]
block = ["128"]
shared = "32 * 128 + 1024"
cluster = ["2"]
args = ["from", "o", "ROWS"]
"#;

/// The second launch starts early, waits, and uses what the first has left for it.
const PROGRAMMATIC: &str = r#"
[[workspace]]
name = "left"
dtype = "f16"
elements = "ELEMENTS"
[[launch]]
kernel = "leave"
grid = ["ceil_div(ELEMENTS, 256)"]
block = ["256"]
args = ["v", "left", "ELEMENTS"]
[[launch]]
kernel = "take_up"
grid = ["ceil_div(ELEMENTS, 256)"]
block = ["256"]
programmatic = true
args = ["left", "o", "ELEMENTS"]
"#;

/// The second launch does nothing and does not wait; meanwhile the first has the output to write.
const UNWAITED: &str = r#"
[[launch]]
kernel = "leave"
grid = ["ceil_div(ELEMENTS, 256)"]
block = ["256"]
args = ["v", "o", "ELEMENTS"]
[[launch]]
kernel = "nothing"
grid = ["1"]
block = ["32"]
programmatic = true
args = []
"#;

/// Makes a family of these launches.
fn family(launches: &str) -> Family {
    let manifest = format!(
        "name = \"copies\"\nabout = \"Copies a single key's value.\"\nop = \"attention\"\ndtypes = [\"f16\"]\nrequires_sm = 90\n\
         constants = [\"D\"]\n[params]\n[derived]\nROWS = \"B * H\"\nELEMENTS = \"B * H * D\"\n{launches}"
    );
    Family::parse(&manifest, include_str!("hopper.cu.tera").to_owned()).unwrap()
}

fn case(batch: i64, regime: Regime) -> Case {
    let dims = [("B", batch), ("H", HEADS), ("Sq", 1), ("Sk", 1), ("D", 72), ("CAUSAL", 0)];
    let dims = dims.map(|(name, value)| (name.to_owned(), value)).into();
    Case { name: "copy".into(), dims, regime }
}

fn copied(evaluation: &Evaluation) {
    assert_eq!(evaluation.outcome, Outcome::Measured);
    let correctness = &evaluation.measurements[0].correctness;
    assert_eq!((correctness.relative_l2, correctness.rows_checked), (0.0, correctness.rows));
}

/// Every kind of launch copies bit for bit: when checked, when timed, and on other contents.
pub async fn launches(device: &str) {
    let mut bench = Bench::on(device).await;
    for launches in [BOXES, CLUSTER, PROGRAMMATIC] {
        copied(&bench.evaluate_family(&family(launches), case(2, Regime::Warm)).await);
    }
}

/// In cold caches every set of buffers has its own maps.
pub async fn launches_cold(device: &str) {
    let mut bench = Bench::on(device).await;
    for launches in [BOXES, PROGRAMMATIC] {
        copied(&bench.evaluate_family(&family(launches), case(64, Regime::Cold)).await);
    }
}

/// A launch after a plan starts after all of it, even if the plan's last launch ended before the previous one.
pub async fn ends_after_all_launches(device: &str) {
    let mut bench = Bench::on(device).await;
    copied(&bench.evaluate_family(&family(UNWAITED), case(2, Regime::Warm)).await);
}
