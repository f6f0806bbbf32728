//! The device that a verb executes kernels on.

use super::error::usage_sentence;
use crate::config::Config;
use crate::runner::device::{DeviceChoice, Devices};

/// Returns the device that is asked for, or the first of config.toml. Refuses several, and a recording, which executes nothing.
pub(super) fn to_execute(asked: Option<&str>, config: &Config) -> anyhow::Result<DeviceChoice> {
    let devices: Devices = asked.unwrap_or(&config.session.device).parse().map_err(usage_sentence)?;
    if asked.is_some() && !devices.others.are_none() {
        return Err(usage_sentence(format!(
            "only a session runs on several devices (`optloop start`): use one, such as {}",
            devices.home
        )));
    }
    devices.home.that_executes().map_err(usage_sentence)
}
