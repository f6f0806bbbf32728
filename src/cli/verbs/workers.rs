//! `optloop workers`: lists the workers of a fleet.

use std::io::Write;
use std::path::Path;

use crate::cli::nats_args::NatsArgs;
use crate::cli::terminal::screen::Screen;

/// Arguments of `optloop workers`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print this user's public key, which sessions and workers of other machines have to trust
    #[arg(long)]
    key: bool,

    /// Print JSON
    #[arg(long, conflicts_with = "key")]
    json: bool,

    #[command(flatten)]
    nats: NatsArgs,
}

/// Lists the workers that are there.
#[cfg(not(feature = "fleet"))]
pub async fn run(_: &Args, _: Option<&Path>, _: Screen, _: &mut impl Write) -> anyhow::Result<()> {
    Err(crate::launch::fleet::missing())
}

#[cfg(feature = "fleet")]
pub use with_fleet::run;

#[cfg(feature = "fleet")]
mod with_fleet {
    use std::time::Duration;

    use super::{Args, Path, Screen, Write};
    use crate::catalog::Project;
    use crate::cli::terminal::table::Table;
    use crate::config::Config;
    use crate::error::{usage, usage_sentence};
    use crate::fleet::OwnKey;
    use crate::launch::fleet::connect;
    use crate::launch::workers::{self, ListedWorker};

    /// Lists the workers that are there.
    pub async fn run(args: &Args, project: Option<&Path>, screen: Screen, out: &mut impl Write) -> anyhow::Result<()> {
        if args.key {
            return Ok(writeln!(out, "{}", OwnKey::open()?.public())?);
        }
        let config = match Project::find(project) {
            Ok(found) => Some(Config::load(found.root()).map_err(usage)?),
            Err(error) if project.is_some() => return Err(usage(error)),
            Err(_) => None,
        };
        let server = args.nats.server();
        let url =
            server.url(config.as_ref()).ok_or_else(|| usage_sentence("name the server: --nats nats://HOST:4222"))?;
        let listed = workers::list(&connect(&server, url).await?, config.as_ref()).await?;
        if args.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&listed)?)?);
        }
        let mut text = Vec::new();
        table(&listed).print_on(screen, &mut text)?;
        screen.show(&text, out)?;
        Ok(())
    }

    fn table(listed: &[ListedWorker]) -> Table {
        let headings = ["host", "device", "model", "state", ">jobs", "?>dropped", "?up", "use", "key"];
        let mut table = Table::new(&headings).with_whole_cells();
        for worker in listed {
            let up = humantime::format_duration(Duration::from_secs(worker.up_s)).to_string();
            let cells = [&worker.host, &worker.device, &worker.model].map(String::clone).into_iter();
            let (jobs, dropped) = (worker.jobs.to_string(), worker.dropped.to_string());
            let rest = [worker.state.to_owned(), jobs, dropped, up, worker.usable.to_owned(), worker.key.to_string()];
            table.row(cells.chain(rest));
        }
        table
    }
}
