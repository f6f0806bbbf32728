//! `optloop doctor`: says what is here, what is missing, and how to mend it.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use super::own_executable;
use crate::catalog::Project;
use crate::config::Config;
use crate::runner::compile::Compiler;
use crate::runner::device::DeviceChoice;
use crate::runner::toolchain::{Toolchain, cache_dir};
use crate::runner::worker::Worker;
use crate::store::Store;
use crate::vcs::Repo;

/// What one look found.
enum Finding {
    /// It is there.
    Here(String),
    /// It is not, and what then does not work.
    Missing(String),
}

use Finding::{Here, Missing};

/// Looks at everything and prints a line for each.
pub async fn run(project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root());
    let step_timeout = config.as_ref().map(Config::step_timeout).unwrap_or_default();
    let device = Worker::start(own_executable()?, &DeviceChoice::Auto, step_timeout).await;
    let findings = [
        ("project", files(project)),
        (
            "config.toml",
            config.as_ref().map_or_else(|e| Missing(format!("{e:#}")), |_| Here("every key is known".into())),
        ),
        (
            "GPU and driver",
            match &device {
                Ok(worker) => worker.stands_in().map_or_else(
                    || {
                        let info = worker.info();
                        let driver = info.driver.as_deref().unwrap_or("unknown");
                        Here(format!("{} ({}, {} SMs), CUDA driver {driver}", info.name, info.arch, info.sms))
                    },
                    Missing,
                ),
                Err(reason) => Missing(format!("{reason}. Sessions run with `--device virtual`: times are modelled")),
            },
        ),
        ("NVRTC and headers", nvrtc()),
        ("PyTorch", torch(config.as_ref().map_or("python3", |config| config.baseline.python.as_str()))),
        (
            "git",
            Repo::discover(project.root()).map_or_else(
                |error| Missing(format!("{error}. Winners stay in the database until then")),
                |_| Here("winners are committed to this repository".into()),
            ),
        ),
        (
            "database",
            match &config {
                Ok(config) => database(project, config).await,
                Err(_) => Missing("it is named in config.toml, which must be mended first".into()),
            },
        ),
    ];
    for (what, finding) in findings {
        match finding {
            Here(text) => writeln!(out, "ok       {what}: {text}")?,
            Missing(text) => writeln!(out, "missing  {what}: {text}")?,
        }
    }
    Ok(())
}

fn files(project: &Project) -> Finding {
    let loaded = project.workload_names().and_then(|names| {
        names.iter().try_for_each(|name| project.workload(name).map(|_| ()))?;
        Ok((names.len(), project.families()?.len()))
    });
    match loaded {
        Ok((workloads, families)) => {
            Here(format!("{workloads} workloads and {families} families in {}", project.root().display()))
        }
        Err(error) => Missing(format!("{error:#}")),
    }
}

fn nvrtc() -> Finding {
    let Some(toolchain) = Toolchain::installed() else {
        let pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
        return Missing(match (pip.is_ok_and(|output| output.status.success()), cache_dir()) {
            (true, Ok(cache)) => {
                format!("no CUDA toolkit; the first use fetches NVRTC with pip into {}", cache.display())
            }
            (true, Err(error)) => format!("{error:#}"),
            (false, _) => "no CUDA toolkit, and no python3 with pip to fetch NVRTC: install either".to_owned(),
        });
    };
    let origin = toolchain.origin.clone();
    let opened = own_executable().and_then(|exe| Compiler::new(exe, toolchain, "sm_90a", &[], Duration::from_secs(60)));
    match opened {
        Ok(compiler) => Here(format!("{} from {origin}", compiler.nvrtc_version())),
        Err(error) => Missing(format!("{error:#}: reinstall it ({origin})")),
    }
}

fn torch(python: &str) -> Finding {
    let program =
        "import torch; print(torch.__version__, 'with CUDA' if torch.cuda.is_available() else 'without CUDA')";
    match Command::new(python).args(["-c", program]).output() {
        Ok(output) if output.status.success() => Here(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        _ => Missing(format!("{python} has no torch, so reports have no baseline: `{python} -m pip install torch`")),
    }
}

async fn database(project: &Project, config: &Config) -> Finding {
    let path = project.root().join(&config.store.path);
    if !path.exists() {
        return Here(format!("none yet; the first session makes {}", path.display()));
    }
    let store = match Store::open_existing(&path).await {
        Ok(store) => store,
        Err(error) => return Missing(error.to_string()),
    };
    match store.sessions().await {
        Ok(sessions) => Here(format!("{} sessions in {}", sessions.len(), path.display())),
        Err(error) => Missing(error.to_string()),
    }
}
