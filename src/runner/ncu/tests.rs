use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use super::*;
use crate::domain::artifact::Artifact;
use crate::domain::plan::LaunchPlan;

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
    let plan = LaunchPlan { workspaces: Vec::new(), launches: vec![launch] };
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
async fn count(script: &str, kernel: &str, limit: Duration) -> Result<Counters, String> {
    let folder = folder_with(script);
    let guard = folder.path().join("guard");
    std::fs::write(&guard, "#!/bin/sh\nshift 2\nexec \"$@\"\n").unwrap();
    std::fs::set_permissions(&guard, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ncu = find(Some(folder.path().as_os_str()), &[]);
    let profiler = Profiler { exe: guard, ncu, choice: DeviceChoice::Fake, timeout: limit };
    profiler.count(&request(kernel)).await
}

const LONG: Duration = Duration::from_secs(60);

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
    let error = count(TABLE, "other", LONG).await.unwrap_err();
    assert_eq!(error, "ncu profiled other launches than those of the plan: k(int)");
}

#[tokio::test]
async fn without_permission_or_with_garbage_there_is_one_sentence() {
    let denied = "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1";
    assert!(count(denied, "k", LONG).await.unwrap_err().contains("(ERR_NVGPUCTRPERM)"));
    let garbage = "head -c 100000 /dev/zero; echo; echo 'no GPU' >&2";
    assert_eq!(count(garbage, "k", LONG).await.unwrap_err(), "ncu profiled no launch: no GPU");
}

/// The script ignores the end of its input, so only the signal ends it. It would sleep for ten minutes.
#[tokio::test]
async fn a_hanging_ncu_ends_at_the_limit() {
    let began = Instant::now();
    let script = "[ \"$1\" = --version ] && exit\nexec sleep 600";
    let error = count(script, "k", Duration::from_millis(300)).await.unwrap_err();
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
    assert!(find(None, &[]).unwrap_err().contains("not installed"));
}
