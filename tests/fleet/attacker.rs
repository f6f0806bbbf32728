//! Someone who can use the server, but has no key that anyone trusts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use tokio::runtime::Runtime;

use super::server::Server;

/// Sends each result once more as it is, and once more with another content.
pub struct Attacker {
    runtime: Runtime,
    sent: Arc<AtomicU64>,
}

impl Attacker {
    /// Starts to listen.
    pub fn start(server: &Server) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let sent = Arc::new(AtomicU64::new(0));
        let client = runtime.block_on(async_nats::connect(server.url())).unwrap();
        let mut results = runtime.block_on(client.subscribe("optloop.done.*")).unwrap();
        let counted = Arc::clone(&sent);
        runtime.spawn(async move {
            while let Some(result) = results.next().await {
                // Those of the workers have names, which let the server drop doubles.
                if result.headers.is_none() {
                    continue;
                }
                let mut forged = result.payload.to_vec();
                forged.iter_mut().last().into_iter().for_each(|byte| *byte ^= 1);
                client.publish(result.subject.clone(), forged.into()).await.unwrap();
                client.publish(result.subject, result.payload).await.unwrap();
                counted.fetch_add(2, Ordering::Relaxed);
            }
        });
        Self { runtime, sent }
    }

    /// Returns how many results it has sent.
    pub fn stop(self) -> u64 {
        self.runtime.shutdown_background();
        self.sent.load(Ordering::Relaxed)
    }
}
