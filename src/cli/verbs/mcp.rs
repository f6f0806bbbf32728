//! `optloop mcp`: an interactive session whose clients speak the Model Context Protocol over standard input and output.

use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpListener;

use crate::catalog::Project;
use crate::cli::verbs::start::hosting::{Hosting, host, serve_http};
use crate::cli::verbs::start::{self, Interacting};
use crate::error::usage_sentence;
use crate::mcp::Server;
use crate::notices::say;
use crate::secrets;

/// Arguments of `optloop mcp`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Serve any number of clients over HTTP, at this address and port of loopback, in place of one on standard input and output
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Let in only clients with a token of the scope `run` from this file (`optloop serve --new-token NAME`)
    #[arg(long, value_name = "FILE", requires = "listen")]
    tokens: Option<PathBuf>,

    #[command(flatten)]
    session: Interacting,
}

/// Runs a session and serves it. Everything but the protocol goes to standard error.
pub async fn run(args: Args, project: &Project) -> anyhow::Result<()> {
    let listener = match args.listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let (tokens, lingers) = (args.tokens, listener.is_some());
    let serve = move |server: Server, stopping| async move {
        let served = match listener {
            Some(listener) => serve_http(&server, listener, tokens, stopping).await,
            None => server.serve_stdio().await,
        };
        if let Err(problem) = served {
            say(&format!("the clients are no longer served: {problem:#}"));
        }
    };
    let mut out = secrets::Masked::new(std::io::stderr());
    let hosting = Hosting { lingers, ..Hosting::default() };
    host(&start::Args::interactive(args.session), project, hosting, serve, &mut out).await
}

/// Listens before the session begins, so that a wrong address costs nothing.
async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    if !address.ip().is_loopback() {
        return Err(usage_sentence(format!("{address} can be reached by others: listen on 127.0.0.1")));
    }
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| usage_sentence(format!("--listen {address}: {error}")))?;
    say(&format!("clients: http://{}/mcp", listener.local_addr()?));
    Ok(listener)
}
