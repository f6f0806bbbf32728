//! Waits that outlast a server that is down for a while.

use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;

/// The pause after a server has not answered.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Publishes a message until the server has it. Its name makes sure that it arrives once.
pub(super) async fn publish(context: &Context, subject: &str, id: &str, payload: Vec<u8>) -> PublishAck {
    loop {
        let message = PublishMessage::build().payload(payload.clone().into()).message_id(id);
        let sent = async { context.send_publish(subject.to_owned(), message).await?.await };
        match sent.await {
            Ok(taken) => return taken,
            Err(error) => tracing::debug!("{subject}: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
