//! The kind of a device. Devices of one kind share their winners.

use crate::error::{Error, error};
use std::fmt;
use std::str::FromStr;

/// The memory that the driver reserves on a GPU, in GiB (approximate). An H200 of 141 GB reports 139.8 GiB (driver 580,
/// 2026-11-22), GPUs of 80 GB report 79.1 to 79.7.
const DRIVER_RESERVED_GIB: f64 = 1.0;

/// Rounding step for the memory. Drivers of one GPU report up to 1 GiB more or less; whole multiples hide that.
const STEP_GIB: f64 = 4.0;

/// A kind of device: model, SM count and memory, such as `nvidia-h200-132sm-140gib`.
///
/// It separates devices that differ in speed, such as MIG slices and variants of one model. The driver is not part of
/// it. Its text names a folder, so it has only lower-case letters, digits and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey {
    model: String,
    sms: u32,
    memory_gib: u64,
}

impl DeviceKey {
    /// Makes the key from the product's name, the number of SMs and the memory that the driver reports, in bytes.
    ///
    /// The memory is rounded: 1 GiB is added for what the driver keeps, then the nearest multiple of 4 GiB is taken.
    pub fn of(name: &str, sms: u32, memory_bytes: u64) -> Self {
        let gib = memory_bytes as f64 / f64::from(1 << 30);
        let memory_gib = ((gib + DRIVER_RESERVED_GIB) / STEP_GIB).round() * STEP_GIB;
        Self { model: model(name), sms, memory_gib: memory_gib as u64 }
    }

    /// Returns the number of SMs.
    pub fn sms(&self) -> u32 {
        self.sms
    }
}

/// Converts a product's name to a part of a file name. A name without a Latin letter or digit becomes `device`.
fn model(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "device".to_owned() } else { words.join("-") }
}

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}sm-{}gib", self.model, self.sms, self.memory_gib)
    }
}

impl FromStr for DeviceKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = || {
            let (rest, memory) = text.strip_suffix("gib")?.rsplit_once('-')?;
            let (name, sms) = rest.strip_suffix("sm")?.rsplit_once('-')?;
            Some(Self { model: model(name), sms: sms.parse().ok()?, memory_gib: memory.parse().ok()? })
        };
        // Only the text that would be written is accepted, so that a folder has one spelling.
        parsed().filter(|key| key.to_string() == text).ok_or_else(|| {
            error!("`{text}` is not a device key")
                .hint("use model, SM count and memory, such as nvidia-h200-132sm-140gib")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, sms: u32, gib: f64) -> String {
        let key = DeviceKey::of(name, sms, (gib * f64::from(1 << 30)) as u64);
        let text = key.to_string();
        let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(text.chars().all(safe) && !text.starts_with('-'), "{text}");
        assert_eq!(text.parse(), Ok(key), "it reads back the same");
        text
    }

    #[test]
    fn model_sms_and_memory_distinguish_devices() {
        let h200 = DeviceKey::of("NVIDIA H200", 132, 150_109_880_320);
        assert_eq!(h200.to_string(), "nvidia-h200-132sm-140gib");
        let mut keys = [
            key("NVIDIA H100 80GB HBM3", 132, 79.1),
            key("NVIDIA H100 PCIe", 114, 79.1),
            key("NVIDIA A100-SXM4-40GB", 108, 39.4),
            key("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 14, 9.5),
            key("NVIDIA A100-SXM4-80GB MIG 1g.20gb", 14, 19.5),
            key("NVIDIA A100-SXM4-80GB", 108, 79.2),
        ];
        keys.sort();
        insta::assert_snapshot!(keys.join("\n"), @r"
        nvidia-a100-sxm4-40gb-108sm-40gib
        nvidia-a100-sxm4-80gb-108sm-80gib
        nvidia-a100-sxm4-80gb-mig-1g-10gb-14sm-12gib
        nvidia-a100-sxm4-80gb-mig-1g-20gb-14sm-20gib
        nvidia-h100-80gb-hbm3-132sm-80gib
        nvidia-h100-pcie-114sm-80gib
        ");
    }

    /// Each pair has values that drivers have reported for one GPU.
    #[test]
    fn drivers_that_report_a_little_more_or_less_agree() {
        for (low, high) in
            [(139.72, 140.4), (79.10, 79.65), (39.39, 39.59), (21.96, 22.49), (14.56, 15.77), (23.64, 24.0)]
        {
            assert_eq!(key("GPU", 1, low), key("GPU", 1, high));
        }
    }

    #[test]
    fn any_product_name_gives_a_key_that_names_a_folder() {
        let of = |name: &str| key(name, 8, 7.8);
        assert_eq!(of("Quadro RTX 6000/8000 (TM)"), "quadro-rtx-6000-8000-tm-8sm-8gib");
        assert_eq!(of("../../etc"), "etc-8sm-8gib");
        assert_eq!(of("Tesla\u{2122} T4\n"), "tesla-t4-8sm-8gib");
        assert_eq!(of(" "), "device-8sm-8gib");
        assert_eq!(of("\u{663e}\u{5361}"), "device-8sm-8gib");
    }

    #[test]
    fn invalid_keys_are_refused() {
        for text in [
            "",
            "attention-fp16-d64",
            "h200-132sm",
            "H200-132sm-140gib",
            "h200-132sm-0140gib",
            "-1sm-4gib",
            "a/b-1sm-4gib",
        ] {
            assert!(text.parse::<DeviceKey>().is_err(), "{text}");
        }
        insta::assert_snapshot!("h200".parse::<DeviceKey>().unwrap_err(), @"`h200` is not a device key: use model, SM count and memory, such as nvidia-h200-132sm-140gib");
    }
}
