//! `optloop serve`: runs a service.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::catalog::Project;
use crate::cli::nats_args::NatsArgs;
use crate::cli::signals;
use crate::error::{usage, usage_sentence};
use crate::launch::own_executable;
use crate::notices::say;
use crate::runner::monitor;
use crate::service::http::tokens::{self, Scope};
use crate::service::{self, Fleet, Options, Room, StateFolder};

/// Arguments of `optloop serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Projects to work on: folders, or NAME=FOLDER [default: the project of the current folder]
    #[arg(value_name = "PROJECT")]
    projects: Vec<String>,

    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,

    /// Folder of the queue and of the logs [default: optloop/service in the user's state folder]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Let in only clients with a token from this file
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// Certificate with its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Allow tokens in the clear on another address than loopback, because something else encrypts the connection
    #[arg(long)]
    insecure_http: bool,

    /// Further name under which browsers call the service, with its port unless that is the one it listens on; can be
    /// repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// CUDA devices to use, such as 0,2 [default: all of the machine]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    gpus: Option<Vec<u32>>,

    /// Sessions on virtual GPUs at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    virtual_slots: usize,

    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = 512)]
    max_connections: usize,

    /// Maximum number of event streams
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_streams: usize,

    /// Maximum time for a client to send a request
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    client_timeout: Duration,

    /// Time after which a session that was cancelled and has not ended is killed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    cancel_timeout: Duration,

    #[command(flatten)]
    nats: NatsArgs,

    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// Print a new token of this name and its line for the tokens file, and stop
    #[arg(long, value_name = "NAME")]
    new_token: Option<String>,

    /// What the new token allows: read, or run (start and stop sessions, too)
    #[arg(long, requires = "new_token", default_value = "read")]
    scope: Scope,
}

/// The format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line of text for each message
    Text,
    /// A JSON object for each message
    Json,
}

/// Runs a service until a signal stops it.
pub async fn run(args: &Args, project: Option<&Path>, out: &mut impl Write) -> anyhow::Result<()> {
    if let Some(name) = &args.new_token {
        let (token, line) = tokens::new_token(name, args.scope).map_err(usage)?;
        writeln!(out, "{line}")?;
        out.flush()?;
        say(&format!("the token, which is not shown again: {token}"));
        say("add the printed line to the tokens file");
        return Ok(());
    }
    let state = match &args.state {
        Some(path) => path.clone(),
        None => StateFolder::default_path()?,
    };
    let options = Options {
        listen: args.listen,
        state,
        projects: projects(args, project)?,
        hosts: args.hosts.clone(),
        tokens: args.tokens.clone(),
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        insecure_http: args.insecure_http,
        room: Room { gpus: args.gpus.clone().unwrap_or_else(monitor::gpus), virtual_slots: args.virtual_slots },
        max_connections: args.max_connections,
        max_streams: args.max_streams,
        client_timeout: args.client_timeout,
        cancel_timeout: args.cancel_timeout,
        exe: own_executable()?,
        fleet: if args.nats.is_given() { Some(fleet(&args.nats).await?) } else { None },
    };
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let mut announced = Ok(());
    let listens = |address: SocketAddr| {
        announced = writeln!(out, "{}", serde_json::json!({ "listening": format!("{scheme}://{address}") }))
            .and_then(|()| out.flush());
    };
    service::serve(options, listens, signals::requested()).await.map_err(usage_of_setup)?;
    Ok(announced?)
}

/// Connects to the server of a fleet.
#[cfg(feature = "fleet")]
async fn fleet(nats: &NatsArgs) -> anyhow::Result<Fleet> {
    use crate::launch::{fleet, workers};
    let server = nats.server();
    let link = fleet::connect(&server, server.url(None).unwrap_or_default()).await?;
    let list = move || {
        let link = link.clone();
        async move { Ok(serde_json::to_value(workers::list(&link, None).await?)?) }
    };
    Ok(Fleet::new(nats.arguments()?, list))
}

#[cfg(not(feature = "fleet"))]
async fn fleet(_: &NatsArgs) -> anyhow::Result<Fleet> {
    Err(crate::launch::fleet::missing())
}

fn projects(args: &Args, project: Option<&Path>) -> anyhow::Result<Vec<String>> {
    if !args.projects.is_empty() {
        return Ok(args.projects.clone());
    }
    let project = Project::find(project).map_err(usage)?;
    match project.root().to_str() {
        Some(root) => Ok(vec![root.to_owned()]),
        None => Err(usage_sentence(format!("{} is not UTF-8: rename the folder", project.root().display()))),
    }
}

/// What keeps a service from starting is a mistake in its setup, unless the system refuses something.
fn usage_of_setup(error: anyhow::Error) -> anyhow::Error {
    if error.chain().any(|cause| cause.is::<std::io::Error>()) { error } else { usage(error) }
}
