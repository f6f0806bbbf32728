//! Kernels without instructions, and the lines from which these come.

use optloop::domain::code::ablation::{Removed, control_ns};
use optloop::domain::family::plan::{Arg, Initial, Launch, LaunchPlan, Workspace};
use optloop::runner::ablation::ablations;
use optloop::runner::messages::LaunchRequest;

use super::bench::Bench;

/// The line of the load that takes most of the time.
const FAR: u32 = 5;

/// The line of the other one.
const NEAR: u32 = 6;

const ADD: &str = r#"__device__ inline float load(const float* from) { return *from; }

extern "C" __global__ void add(float* to, const float* far, const float* near) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float first = load(far + i);
    const float second = load(near + i % 256);
    to[i] = first + second;
}
"#;

/// Each load comes from the line that calls the helper. Where times are measured, the one from a large tensor costs more.
pub async fn name_lines(device: &str) {
    let mut bench = Bench::on(device).await;
    let blocks: usize = if device == "fake" { 64 } else { 65_536 };
    let workspace =
        |name: &str, floats: usize| Workspace { name: name.to_owned(), bytes: 4 * floats, initial: Initial::Zero };
    let workspaces = vec![workspace("to", 256 * blocks), workspace("far", 256 * blocks), workspace("near", 256)];
    let launch = Launch {
        kernel: "add".to_owned(),
        grid: [u32::try_from(blocks).unwrap(), 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        cluster: None,
        programmatic: false,
        args: ["to", "far", "near"].map(|name| Arg::Workspace(name.to_owned())).into(),
    };
    let plan = LaunchPlan { workspaces, launches: vec![launch], ..LaunchPlan::default() };
    let request = LaunchRequest { artifact: bench.compile(ADD), plan, problem: None, cold: false, seed: 0 };
    let lined = bench.lined(ADD).await;
    let ablations = ablations(&mut bench.worker, &request, Some(&lined), 200_000.0).await.unwrap();
    let loads = ablations.iter().find(|one| one.removed == Removed::GlobalLoads).unwrap();
    let mut lines: Vec<_> = loads.lines.iter().map(|line| (line.line, line.places, line.text.as_str())).collect();
    lines.sort_unstable();
    let far = (FAR, 1, "const float first = load(far + i);");
    assert_eq!(lines, [far, (NEAR, 1, "const float second = load(near + i % 256);")]);
    if device == "fake" {
        // Its times do not depend on the code, so no kind is expensive.
        assert!(loads.lines.iter().all(|line| line.time_ns.is_none()));
        return;
    }
    let control_ns = control_ns(&ablations).unwrap();
    let [first, second] = &loads.lines[..] else { panic!("two lines") };
    let (far_ns, near_ns) = (first.time_ns.unwrap(), second.time_ns.unwrap());
    assert_eq!((first.line, second.line), (FAR, NEAR), "the most expensive line comes first");
    assert!(far_ns < 0.8 * control_ns && near_ns > 0.9 * control_ns, "{far_ns} and {near_ns} of {control_ns} ns");
}
