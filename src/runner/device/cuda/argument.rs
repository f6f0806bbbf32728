//! The arguments of a launch, as the driver takes them.

/// The bytes of a tensor map, the largest argument.
pub(super) const MAP_BYTES: usize = 128;

/// The bytes of an address, and of a number from which a parameter takes as many as it has.
pub(super) const NUMBER_BYTES: usize = 8;

/// One argument of a launch, in memory that the driver reads during the call: as many bytes from the front as the parameter has.
/// A tensor map is aligned to 64.
#[repr(C, align(64))]
pub(super) struct Argument(pub(super) [u8; MAP_BYTES]);

impl Argument {
    /// Makes one of an address or a number.
    pub(super) fn of(number: u64) -> Self {
        let mut bytes = [0; MAP_BYTES];
        bytes[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        Self(bytes)
    }
}
