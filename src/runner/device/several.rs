//! The devices that a session's `--device` names: one, or several of one kind.

use super::DeviceChoice;
use crate::error::{Error, Result, error};

/// The most devices of a session. No host has more GPUs.
const MOST: u32 = 64;

/// The devices of a session. The first one is its *home*, which compares. The others only screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Devices {
    /// The home device.
    pub home: DeviceChoice,
    /// The others.
    pub others: Others,
}

/// The devices of a session beside its home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Others {
    /// These devices. Most sessions have none.
    These(Vec<DeviceChoice>),
    /// Every further CUDA device.
    AllCuda,
}

impl Others {
    /// Returns none.
    pub fn none() -> Self {
        Self::These(Vec::new())
    }

    /// Tells whether there are none.
    pub fn are_none(&self) -> bool {
        *self == Self::none()
    }

    /// Returns the number of devices that are named.
    pub fn known(&self) -> usize {
        match self {
            Self::These(devices) => devices.len(),
            Self::AllCuda => 0,
        }
    }

    /// Returns the device with a number, counted from 0. None after the last one that is known. CUDA devices are counted by
    /// trying them.
    pub fn get(&self, number: usize) -> Option<DeviceChoice> {
        match self {
            Self::These(devices) => devices.get(number).cloned(),
            Self::AllCuda => u32::try_from(number + 1).ok().filter(|cuda| *cuda < MOST).map(DeviceChoice::Cuda),
        }
    }
}

impl From<DeviceChoice> for Devices {
    fn from(home: DeviceChoice) -> Self {
        Self { home, others: Others::none() }
    }
}

impl std::str::FromStr for Devices {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "cuda:all" {
            return Ok(Self { home: DeviceChoice::Cuda(0), others: Others::AllCuda });
        }
        // The name of a recording may contain anything.
        if text.starts_with("replay:") {
            return Ok(text.parse::<DeviceChoice>()?.into());
        }
        if let Some((device, number)) = text.split_once('*') {
            return copies(device, number);
        }
        let Some((first, others)) = text.split_once(',') else { return Ok(text.parse::<DeviceChoice>()?.into()) };
        let no_list = || {
            error!(
                "`{text}` is not a list of GPUs: several devices are cuda:all, cuda:N,N or a virtual GPU such as \
                 virtual:h200*4"
            )
        };
        let mut devices = vec![first.parse::<DeviceChoice>()?];
        for other in others.split(',') {
            // `cuda:0,2` is short for `cuda:0,cuda:2`.
            let device =
                other.parse().map(DeviceChoice::Cuda).or_else(|_| other.parse()).map_err(|_: Error| no_list())?;
            if devices.contains(&device) {
                return Err(error!("`{text}` names {device} twice").hint("name each GPU once"));
            }
            devices.push(device);
        }
        if !devices.iter().all(|device| matches!(device, DeviceChoice::Cuda(_))) {
            return Err(no_list());
        }
        let home = devices.remove(0);
        Ok(Self { home, others: Others::These(devices) })
    }
}

/// Returns so many copies of a device that exists in any number.
fn copies(device: &str, number: &str) -> Result<Devices> {
    let number = number.parse().ok().filter(|number| (1..=MOST).contains(number));
    let number = number.ok_or_else(|| error!("`{device}*N` needs a number from 1 to {MOST}, such as {device}*4"))?;
    let home: DeviceChoice = device.parse()?;
    let copy = |copy| match &home {
        DeviceChoice::Virtual(name) => Ok(DeviceChoice::Virtual(name.clone())),
        DeviceChoice::Fake(first) => Ok(DeviceChoice::Fake(first + copy)),
        _ => {
            Err(error!("`{device}*{number}` is not possible: only virtual GPUs exist in any number, so name your GPUs"))
        }
    };
    let others = (1..number).map(copy).collect::<Result<_, _>>()?;
    Ok(Devices { home, others: Others::These(others) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<String>> {
        let Devices { home, others } = text.parse()?;
        let others = (0..4).filter_map(|number| others.get(number));
        Ok([home].into_iter().chain(others).map(|device| device.to_string()).collect())
    }

    #[test]
    fn a_session_names_one_device_or_several() {
        assert_eq!(parsed("virtual:h200").unwrap(), ["virtual:h200"]);
        assert_eq!(parsed("auto").unwrap(), ["auto"]);
        assert_eq!(parsed("cuda:3,cuda:1,2").unwrap(), ["cuda:3", "cuda:1", "cuda:2"]);
        assert_eq!(parsed("virtual:h200*3").unwrap(), ["virtual:h200"; 3]);
        assert_eq!(parsed("virtual*1").unwrap(), ["virtual:h200"]);
        assert_eq!(parsed("cuda:all").unwrap(), ["cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4"]);
    }

    #[test]
    fn what_is_no_list_of_devices_is_refused_with_what_to_write() {
        let refused = |text: &str| parsed(text).unwrap_err();
        insta::assert_snapshot!(refused("cuda:0,2,0"), @"`cuda:0,2,0` names cuda:0 twice: name each GPU once");
        insta::assert_snapshot!(refused("virtual,virtual:l4"), @"`virtual,virtual:l4` is not a list of GPUs: several devices are cuda:all, cuda:N,N or a virtual GPU such as virtual:h200*4");
        insta::assert_snapshot!(refused("cuda:0*2"), @"`cuda:0*2` is not possible: only virtual GPUs exist in any number, so name your GPUs");
        insta::assert_snapshot!(refused("virtual*0"), @"`virtual*N` needs a number from 1 to 64, such as virtual*4");
        insta::assert_snapshot!(refused("virtual:h300*2"), @"there is no virtual GPU `h300` (did you mean `h200`?); there are: h200, a100, l4");
        insta::assert_snapshot!(refused("cuda:0,"), @"`cuda:0,` is not a list of GPUs: several devices are cuda:all, cuda:N,N or a virtual GPU such as virtual:h200*4");
    }
}
