//! Arithmetic operations, by number of sources. Names follow the PTX ISA.

/// Operations with one source. The result of `Popc`, `Clz` and `Bfind` is always 32-bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Unary {
    Neg,
    Abs,
    Not,
    Cnot,
    Popc,
    Clz,
    /// `bfind`; with `shift` it gives the shift amount (`.shiftamt`).
    Bfind {
        shift: bool,
    },
    Brev,
    Sqrt,
    Rcp,
    Rsqrt,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
}

/// Operations with two sources of the same type. Exceptions: the second source of `Shl` and `Shr` is a 32-bit count,
/// and the result of `MulWide` is twice as wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    /// Floating-point product, or the low half of an integer one.
    Mul,
    MulHi,
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    /// The value of `b` with the sign of `a`.
    Copysign,
    /// `mul24.lo`
    Mul24,
}

/// Operations with three sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Ternary {
    /// `mad.lo`; for floats `fma` (and `mad`).
    Mad,
    MadHi,
    /// `mad.wide`: `c` and the result are twice as wide.
    MadWide,
    Sad,
    /// `prmt.b32`, default mode.
    Prmt,
    /// `bfe`: `b` is the position and `c` the length, 32-bit.
    Bfe,
    /// `shf.l`/`shf.r` of the pair (b:a) by `c`.
    Funnel {
        left: bool,
        wrap: bool,
    },
    /// `lop3.b32` with its truth table.
    Lop3(u8),
    /// `dp4a` with the signedness of `a` and `b`.
    Dp4a {
        a_signed: bool,
        b_signed: bool,
    },
    /// `mad24.lo`
    Mad24,
}

/// Comparison of `setp` and `set`. The unordered ones (`equ` ...) are true if an operand is NaN. `Lo` to `Hs` are the
/// unsigned forms; they are lowered to `Lt` to `Ge` of an unsigned type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Both are numbers.
    Num,
    /// At least one is NaN.
    Nan,
}

/// Boolean operation on predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Bool {
    And,
    Or,
    Xor,
}
