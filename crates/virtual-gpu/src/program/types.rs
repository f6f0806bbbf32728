//! Element types, rounding modes and modifiers of operations.

/// Element type of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Ty {
    Pred,
    B8,
    U8,
    S8,
    B16,
    U16,
    S16,
    B32,
    U32,
    S32,
    B64,
    U64,
    S64,
    B128,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    E4m3,
    E4m3x2,
    E5m2,
    E5m2x2,
    S4,
    U4,
}

impl Ty {
    /// Returns its width in bits (1 for predicates).
    pub fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::S4 | Self::U4 => 4,
            Self::B8 | Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 => 8,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 | Self::E4m3x2 | Self::E5m2x2 => 16,
            Self::B32 | Self::U32 | Self::S32 | Self::F16x2 | Self::Bf16x2 | Self::Tf32 | Self::F32 => 32,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 64,
            Self::B128 => 128,
        }
    }

    /// Returns its width in bytes (1 for predicates).
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Returns whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S4 | Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Returns whether it is an 8-bit floating-point type, which only matrix products have.
    pub fn is_fp8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// Returns whether it is a floating-point type, packed ones included.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16
                | Self::F16x2
                | Self::Bf16
                | Self::Bf16x2
                | Self::Tf32
                | Self::F32
                | Self::F64
                | Self::E4m3
                | Self::E4m3x2
                | Self::E5m2
                | Self::E5m2x2
        )
    }
}

/// Rounding mode of a floating-point operation or conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Round {
    /// `.rn`, to nearest even: the default of arithmetic.
    #[default]
    Nearest,
    /// `.rna`, to nearest, ties away from zero.
    NearestAway,
    /// `.rz`, towards zero.
    Zero,
    /// `.rm`, towards minus infinity.
    Down,
    /// `.rp`, towards plus infinity.
    Up,
    /// `.rni`, to the nearest integer, ties to even.
    IntegerNearest,
    /// `.rzi`, to an integer towards zero.
    IntegerZero,
    /// `.rmi`, to an integer towards minus infinity.
    IntegerDown,
    /// `.rpi`, to an integer towards plus infinity.
    IntegerUp,
}

/// Modifiers of arithmetic and conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mods {
    /// `.ftz`: subnormal inputs and results become zero of the same sign.
    pub ftz: bool,
    /// `.sat` (floats to [0, 1]; integers to their range) or `.satfinite`.
    pub sat: bool,
    /// `.relu`: negative results and NaN become 0.
    pub relu: bool,
    /// `.NaN`: min and max return NaN if an operand is NaN.
    pub nan: bool,
    /// `.approx`, also set with `full`: the fast form with PTX's stated error.
    pub approx: bool,
    /// `.full`: a fast division that is valid over the full range.
    pub full: bool,
    /// Rounding mode.
    pub round: Round,
}
