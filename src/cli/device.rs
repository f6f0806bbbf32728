//! The device that a verb executes kernels on.

use super::error::usage_sentence;
use crate::config::Config;
use crate::runner::device::DeviceChoice;

/// Returns the device that is asked for, or that of config.toml. Refuses a recording, which executes nothing.
pub(super) fn to_execute(asked: Option<&str>, config: &Config) -> anyhow::Result<DeviceChoice> {
    let choice = asked.unwrap_or(&config.session.device).parse().and_then(DeviceChoice::that_executes);
    choice.map_err(usage_sentence)
}
