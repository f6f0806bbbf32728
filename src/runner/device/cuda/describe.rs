//! What the driver reports about a device and about an error.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use crate::domain::device::gpu_state::Graphs;
use crate::domain::device::{DeviceInfo, Peaks, TimingMode};

/// Returns the description of a device that sessions use.
pub(super) fn describe_device(device: sys::CUdevice, number: u32) -> Result<DeviceInfo, DriverError> {
    // SAFETY: the device handle is valid.
    let get = |attribute| unsafe { result::device::get_attribute(device, attribute) };
    let unsigned = |attribute| get(attribute).map(i32::unsigned_abs);
    let sm = unsigned(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
        + unsigned(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let sms = unsigned(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let peaks = Peaks::derived(
        sm,
        sms,
        f64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?),
        f64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?),
        f64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?),
    );
    Ok(DeviceInfo {
        id: format!("cuda:{number}"),
        name: result::device::get_name(device)?,
        sm,
        // Only the architecture-specific target has Hopper's wgmma and setmaxnreg.
        arch: if sm >= 90 { format!("sm_{sm}a") } else { format!("sm_{sm}") },
        sms,
        smem_limit_bytes: u64::from(unsigned(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?),
        max_threads: unsigned(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        l2_bytes: u64::from(unsigned(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        // SAFETY: the device handle is valid.
        memory_bytes: unsafe { result::device::total_mem(device)? } as u64,
        driver: driver_version(),
        uuid: result::device::get_uuid(device).ok().map(|uuid| uuid_text(&uuid)),
        timing: TimingMode::Measured(Graphs::AmongOthers),
        peaks,
    })
}

/// Formats a UUID as NVML does, such as `GPU-1b2c…`.
fn uuid_text(uuid: &sys::CUuuid) -> String {
    let hex: String = uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns the CUDA version of the driver, such as `13.0`.
fn driver_version() -> Option<String> {
    let mut version = 0;
    // SAFETY: the pointer is writable.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().ok()?;
    Some(format!("{}.{}", version / 1000, version % 1000 / 10))
}

/// Returns the driver's name and description of an error.
pub(super) fn describe(error: &DriverError) -> String {
    let text = |text: Result<&std::ffi::CStr, DriverError>| text.map(|t| t.to_string_lossy().into_owned()).ok();
    match (text(error.error_name()), text(error.error_string())) {
        (Some(name), Some(sentence)) => format!("{name}, {sentence}"),
        _ => format!("{:?}", error.0),
    }
}
