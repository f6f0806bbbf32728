//! Profiles baselines: one call of a backend on each of some cases, all in one process, because loading PyTorch takes
//! longer than all else.

use super::{Profiler, often_sampled, output};
use crate::domain::code::counters::{Counters, LaunchCounters};
use crate::domain::code::launched::LaunchedKernel;
use crate::error::{Error, Result, error};
use crate::runner::activity::{self, Limit};
use crate::runner::baseline::{BaselineProgram, ProfiledCall, answers};

impl Profiler {
    /// Profiles calls of backends, with cold caches or with warm ones. The time of the longest may be known. Returns the counters
    /// of each call, or why there are none. The error says in one sentence why there are none of any.
    pub async fn count_baselines(
        &self,
        program: &BaselineProgram,
        calls: &[ProfiledCall],
        cold: bool,
        longest_ns: Option<f64>,
    ) -> Result<Vec<Result<Counters, String>>> {
        if !program.may_be_profiled() {
            return Err(Error::new("a profiler runs only baseline programs that optloop ships"));
        }
        let ncu = self.ncu.as_ref().map_err(Clone::clone)?;
        let _running = activity::begin("ncu", Limit::new(super::TIMEOUT_KEY, self.timeout));
        let folder = tempfile::tempdir().map_err(|error| error!("ncu has no temporary folder: {error}"))?;
        let profiled = program.profiled(calls, folder.path()).await?;
        let tool = self.version(ncu, &folder).await;
        let mut command = self.counting(ncu, &folder, cold);
        command.args(often_sampled(&tool, longest_ns));
        command.args(["--profile-from-start", "off"]).args(profiled).current_dir(&program.folder);
        command.envs(program.env.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        // ncu needs a home of its own, but Python finds packages of the user's below the real one.
        if let Some(home) = std::env::var_os("HOME").filter(|_| std::env::var_os("PYTHONUSERBASE").is_none()) {
            command.env("PYTHONUSERBASE", std::path::Path::new(&home).join(".local"));
        }
        let printed = self.run(command, self.timeout).await?;
        let answers = answers(&printed, calls);
        if answers.iter().all(Result::is_err) {
            return Ok(answers
                .into_iter()
                .map(|answer| answer.map(|_| Counters::default()).map_err(String::from))
                .collect());
        }
        let mut launches = output::parse(&printed)?;
        self.tell_products_apart(ncu, &mut launches, &folder).await;
        Ok(divided(launches, answers, &tool))
    }
}

/// Divides launches among the calls that made them, in order.
fn divided(
    launches: Vec<LaunchCounters>,
    answers: Vec<Result<Vec<LaunchedKernel>>>,
    tool: &str,
) -> Vec<Result<Counters, String>> {
    let told: usize = answers.iter().flatten().map(Vec::len).sum();
    let is_told = told == launches.len();
    let mut launches = launches.into_iter();
    let mut one = |kernels: Vec<LaunchedKernel>| {
        let counted: Vec<LaunchCounters> = launches.by_ref().take(kernels.len()).collect();
        let is_same = |(counted, kernel): (&LaunchCounters, &LaunchedKernel)| {
            let profiled = LaunchedKernel { name: counted.kernel.clone(), ..kernel.clone() };
            profiled.short_name() == kernel.short_name()
        };
        if !is_told || !counted.iter().zip(&kernels).all(is_same) {
            let counted: Vec<_> = counted.iter().map(|launch| launch.kernel.as_str()).collect();
            return Err(error!("ncu profiled other launches than those of the call: {}", counted.join(", ")));
        }
        let named = counted.into_iter().zip(kernels);
        let launches = named.map(|(counters, kernel)| LaunchCounters { kernel: kernel.name, ..counters }).collect();
        Ok(Counters { tool: tool.to_owned(), launches })
    };
    answers.into_iter().map(|answer| answer.and_then(&mut one).map_err(String::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_belong_to_the_calls_whose_kernels_have_their_names() {
        let launched = |name: &str| LaunchCounters { kernel: name.to_owned(), ..LaunchCounters::default() };
        let kernel = |name: &str| LaunchedKernel {
            name: name.to_owned(),
            grid: [1; 3],
            block: [32, 1, 1],
            shared_bytes: None,
            registers: None,
        };
        let all = || vec![launched("void a::split<4>(Params)"), launched("reduce"), launched("other(int)")];
        let calls = || {
            let first = vec![kernel("void a::split<4>(const Params&)"), kernel("reduce")];
            vec![Ok(first), Err(Error::new("refused")), Ok(vec![kernel("other(int)")])]
        };
        let names = |found: &Result<Counters, String>| match found {
            Ok(counters) => {
                counters.launches.iter().map(|launch| launch.kernel.clone()).collect::<Vec<_>>().join(" + ")
            }
            Err(reason) => reason.clone(),
        };
        let told = |launches, calls| divided(launches, calls, "ncu").iter().map(names).collect::<Vec<_>>();
        assert_eq!(told(all(), calls()), ["void a::split<4>(const Params&) + reduce", "refused", "other(int)"]);
        let mismatch = |kernels: &str| format!("ncu profiled other launches than those of the call: {kernels}");
        let few = told(all()[..2].to_vec(), calls());
        assert_eq!(few, [mismatch("void a::split<4>(Params), reduce"), "refused".to_owned(), mismatch("")]);
        let renamed = vec![launched("split"), launched("sum"), launched("other")];
        assert_eq!(told(renamed, calls()), [&mismatch("split, sum"), "refused", "other(int)"]);
    }
}
