use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use super::*;
use crate::domain::code::artifact::Artifact;
use crate::domain::compute::Compute;
use crate::domain::device::regime::Regime;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::op::Dtype;
use crate::domain::workload::{BaselineKey, Case};
use crate::runner::baseline::{BaselineProgram, ProfiledCall, Settings};

/// The rows of a launch of `k`, as a script prints them.
const TABLE: &str = "echo '\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"profiler__replayer_passes\"'\n\
                     echo '\"\",\"\",\"ns\",\"pass\"'\necho '\"0\",\"k(int)\",\"1,234\",\"3\"'\n";

/// Makes a folder with an `ncu` that does what `script` says.
fn folder_with(script: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ncu");
    std::fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn request(kernel: &str) -> LaunchRequest {
    let launch = Launch {
        kernel: kernel.to_owned(),
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        cluster: None,
        programmatic: false,
        args: Vec::new(),
    };
    let plan = LaunchPlan { launches: vec![launch], ..LaunchPlan::default() };
    let text = String::new;
    let artifact = Artifact {
        key: text(),
        arch: text(),
        options: Vec::new(),
        nvrtc: text(),
        cubin: Vec::new(),
        ptx: text(),
        kernels: Vec::new(),
        log: text(),
        compile_ms: 0.0,
    };
    LaunchRequest { artifact, plan, problem: None, cold: false, seed: 1 }
}

/// Runs a fake ncu in place of the guard: `exe guard -- ncu ARGUMENTS` becomes `sh -c 'shift 2; exec "$@"'`.
async fn count(script: &str, kernel: &str, limit: Duration) -> Result<Counters> {
    count_of(script, kernel, None, limit).await
}

/// The same, of a kernel whose time may be known.
async fn count_of(script: &str, kernel: &str, time_ns: Option<f64>, limit: Duration) -> Result<Counters> {
    let folder = folder_with(script);
    let guard = folder.path().join("guard");
    std::fs::write(&guard, "#!/bin/sh\nshift 2\nexec \"$@\"\n").unwrap();
    std::fs::set_permissions(&guard, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ncu = find(Some(folder.path().as_os_str()), &[]);
    let profiler = Profiler { exe: guard, ncu, choice: DeviceChoice::Fake(0), timeout: limit };
    profiler.count(&request(kernel), time_ns).await
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn waits_for_products_are_read_from_the_report_of_the_same_run() {
    let state = "smsp__pcsamp_warps_issue_stalled_barrier";
    let script = format!(
        "case \"$*\" in\n\
         *--import*/launches.ncu-rep*'--page source --print-source sass'*) printf '\"Kernel Name\",\"k\"\\n\"Address\",\"Source\",\
         \"{state}\"\\n\"0x0\",\"WARPGROUP.DEPBAR.LE gsb0, 0x0\",\"1,002\"\\n' ;;\n\
         *--export*/launches*) printf '\"ID\",\"Kernel Name\",\"{state}\"\\n\"\",\"\",\"\"\\n\"0\",\"k\",\"1,234\"\\n' ;;\nesac\n"
    );
    let counters = count(&script, "k", LONG).await.unwrap();
    let states: Vec<_> = counters.launches[0].warp_states.iter().map(|(state, samples)| (&**state, *samples)).collect();
    assert_eq!(states, [("barrier", 232.0), ("warpgroup_products", 1002.0)]);
}

#[tokio::test]
async fn the_warps_of_short_kernels_are_sampled_often() {
    let is_often = async |version: &str, time_ns| {
        let script = format!(
            "[ \"$1\" = --version ] && {{ echo 'Version {version} (build 1)'; exit; }}\n\
             case \"$*\" in *'--warp-sampling-interval 0 --launch-skip'*) {TABLE} ;; esac\n"
        );
        count_of(&script, "k", time_ns, LONG).await.is_ok()
    };
    assert!(is_often("2025.3.1.0", Some(5_000.0)).await);
    assert!(!is_often("2025.3.1.0", Some(60_000.0)).await, "it would fill the buffer");
    assert!(!is_often("2025.3.1.0", None).await);
    assert!(!is_often("2023.1.0.0", Some(5_000.0)).await, "the option may not be known");
}

#[tokio::test]
async fn the_counters_of_a_launch_come_with_the_version() {
    let script = format!("[ \"$1\" = --version ] && {{ echo 'Version 2025.3.1.0 (build 1)'; exit; }}\n{TABLE}");
    let counters = count(&script, "k", LONG).await.unwrap();
    assert_eq!(counters.tool, "ncu 2025.3.1.0");
    let [launch] = &counters.launches[..] else { panic!("{counters:?}") };
    assert_eq!((launch.kernel.as_str(), launch.time_ns, launch.passes), ("k", Some(1234.0), Some(3.0)));
    // Clocks stay as they are, the caches stay warm, and the first execution is skipped.
    let script = format!(
        "[ \"$1\" = --version ] && exit\ncase \"$*\" in *'--clock-control none --cache-control none '*\
                          '--launch-skip 1 --launch-count 1 '*' profiled --device fake --request '*) {TABLE} ;; esac\n"
    );
    assert_eq!(count(&script, "k", LONG).await.unwrap().tool, "ncu");
}

#[tokio::test]
async fn a_profile_of_other_launches_is_refused() {
    let error = count(TABLE, "other", LONG).await.unwrap_err().to_string();
    assert_eq!(error, "ncu profiled other launches than those of the plan: k(int)");
}

#[tokio::test]
async fn without_permission_or_with_garbage_there_is_one_sentence() {
    let denied = "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1";
    assert!(count(denied, "k", LONG).await.unwrap_err().to_string().contains("(ERR_NVGPUCTRPERM)"));
    let garbage = "head -c 100000 /dev/zero; echo; echo 'no GPU' >&2";
    assert_eq!(count(garbage, "k", LONG).await.unwrap_err().to_string(), "ncu profiled no launch: no GPU");
}

/// The script ignores the end of its input, so only the signal ends it. It would sleep for ten minutes.
#[tokio::test]
async fn a_hanging_ncu_ends_at_the_limit() {
    let began = Instant::now();
    let script = "[ \"$1\" = --version ] && exit\nexec sleep 600";
    let error = count(script, "k", Duration::from_millis(300)).await.unwrap_err().to_string();
    assert_eq!(error, "ncu took over 300ms (counters.timeout)");
    assert!(began.elapsed() < LONG);
}

#[test]
fn ncu_is_found_in_path_then_in_toolkits_and_never_in_a_relative_folder() {
    let (first, toolkit) = (folder_with(""), tempfile::tempdir().unwrap());
    std::fs::create_dir(toolkit.path().join("bin")).unwrap();
    std::fs::write(toolkit.path().join("bin/ncu"), "").unwrap();
    let path = |folders: &[&Path]| std::env::join_paths(folders).unwrap();
    let roots = [toolkit.path().to_owned()];
    assert_eq!(find(Some(&path(&[Path::new("bin"), first.path()])), &roots), Ok(first.path().join("ncu")));
    assert_eq!(find(Some(&path(&[])), &roots), Ok(toolkit.path().join("bin/ncu")));
    assert!(find(None, &[]).unwrap_err().to_string().contains("not installed"));
}

/// Profiles two calls of the shipped program, with a fake ncu and a fake Python, which answers each request.
async fn count_baselines(python: &str, table: &str) -> Result<Vec<Result<Counters, String>>> {
    let skip = "[ \"$1\" = --version ] && { echo 'Version 2025.3.1.0'; exit; }\n\
                case \"$*\" in *'--profile-from-start off '*) ;; *) exit 1 ;; esac\n\
                until [ -f \"$1\" ] && [ -x \"$1\" ]; do shift; done\n\"$@\" || exit 1\n";
    let folder = folder_with(&format!("{skip}{table}"));
    for (name, text) in [("guard", "shift 2\nexec \"$@\"\n"), ("python", python)] {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (exe, ncu) = (folder.path().join("guard"), find(Some(folder.path().as_os_str()), &[]));
    let settings = Settings {
        python: folder.path().join("python").display().to_string(),
        env: Vec::new(),
        read: Vec::new(),
        write: Vec::new(),
        timeout: LONG,
    };
    let (project, key) = (Path::new(env!("CARGO_MANIFEST_DIR")), BaselineKey::File("torch_sdpa.py".to_owned()));
    let program = BaselineProgram::of(exe.clone(), project, &key, settings, 0, 1e5).unwrap();
    let dims = [("B", 1), ("H", 1), ("Sq", 4), ("Sk", 4), ("D", 4), ("CAUSAL", 1)].map(|(name, n)| (name.into(), n));
    let call = |backend: &str| ProfiledCall {
        op: crate::ops::find("attention").unwrap(),
        dtype: Dtype::F16,
        compute: Compute::Dtype,
        case: Case { name: "c".into(), dims: dims.clone().into_iter().collect(), regime: Regime::Warm },
        backend: backend.to_owned(),
        l2_bytes: 1 << 20,
        input_seed: 1,
    };
    let profiler = Profiler { exe, ncu, choice: DeviceChoice::Fake(0), timeout: LONG };
    profiler.count_baselines(&program, &[call("cudnn"), call("flash")], false, None).await
}

#[tokio::test]
async fn each_call_of_a_baseline_has_its_own_launches() {
    // The program is in the current folder, and each request has the files of its inputs.
    let python = r#"[ -f "$1" ] && [ "$2" = --requests ] || exit 1
while read -r request; do
    name=$(echo "$request" | sed 's/.*"backend":"\([a-z]*\)".*/\1/')
    [ -f "$(echo "$request" | sed 's/.*"q":"\([^"]*\)".*/\1/')" ] || exit 1
    echo "{\"compute\": \"dtype\", \"kernels\": [{\"name\": \"$name\", \"grid\": [1, 1, 1], \"block\": [32, 1, 1]}]}"
done < "$3"
"#;
    let table = "echo '\"ID\",\"Kernel Name\",\"smsp__inst_executed.sum\"'\necho '\"\",\"\",\"inst\"'\n\
                 echo '\"0\",\"cudnn(int)\",\"1,234\"'\necho '\"1\",\"flash\",\"7\"'\n";
    let found = count_baselines(python, table).await.unwrap();
    let told = |counters: &Result<Counters, String>| {
        let counters = counters.as_ref().unwrap();
        (counters.tool.clone(), counters.launches[0].kernel.clone(), counters.launches[0].instructions)
    };
    let ncu = || "ncu 2025.3.1.0".to_owned();
    let expected = [(ncu(), "cudnn".to_owned(), Some(1234.0)), (ncu(), "flash".to_owned(), Some(7.0))];
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), expected);
    let refused = count_baselines("echo '{\"error\": \"torch sees no CUDA device\"}'\n", "").await.unwrap();
    assert_eq!(refused[0], Err("torch sees no CUDA device".to_owned()));
    assert_eq!(refused[1], Err("the program did not answer".to_owned()));
}
