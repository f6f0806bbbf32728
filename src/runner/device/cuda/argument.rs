//! The arguments of a launch, as the driver takes them.

/// Size of a tensor map, the largest argument, in bytes.
pub(super) const MAP_BYTES: usize = 128;

/// Size of an address or a number, in bytes. A smaller parameter takes only the first bytes of it.
pub(super) const NUMBER_BYTES: usize = 8;

/// One argument of a launch. During the call, the driver reads as many bytes from the front as the parameter has.
/// Tensor maps need the alignment of 64 bytes.
#[repr(C, align(64))]
pub(super) struct Argument(pub(super) [u8; MAP_BYTES]);

impl Argument {
    /// Makes an argument from an address or a number.
    pub(super) fn of(number: u64) -> Self {
        let mut bytes = [0; MAP_BYTES];
        bytes[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        Self(bytes)
    }
}
