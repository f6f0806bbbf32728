//! The syntax tree of a PTX text: flat, borrowing from the text, with line numbers.

use crate::program::{Space, Ty};

/// A whole text.
#[derive(Debug, Default)]
pub(crate) struct Source<'a> {
    /// PTX version.
    pub version: (u32, u32),
    /// First target.
    pub target: &'a str,
    /// Variables outside kernels, in every space.
    pub variables: Vec<Variable<'a>>,
    /// Kernels.
    pub entries: Vec<Entry<'a>>,
    /// Functions with a body.
    pub functions: Vec<Function<'a>>,
}

/// A function that kernels call.
#[derive(Debug)]
pub(crate) struct Function<'a> {
    /// Name.
    pub name: &'a str,
    /// Results.
    pub results: Vec<Variable<'a>>,
    /// Parameters.
    pub params: Vec<Variable<'a>>,
    /// Its statements.
    pub body: Vec<Statement<'a>>,
}

/// A variable declaration.
#[derive(Debug)]
pub(crate) struct Variable<'a> {
    /// Line.
    pub line: u32,
    /// State space.
    pub space: Space,
    /// Name.
    pub name: &'a str,
    /// Alignment in bytes.
    pub align: u32,
    /// Bytes of one element.
    pub element: u32,
    /// Total size in bytes: one element times vector width (`.v2`: 2) and dimensions. 0 for an array without a size.
    pub bytes: u64,
    /// Bytes of the sub-arrays from the outermost to the innermost, then of the element.
    pub strides: Vec<u64>,
    /// Whether it is `.extern`.
    pub is_extern: bool,
    /// Initialiser, flattened.
    pub initial: Vec<Initial<'a>>,
}

/// One element of an initialiser.
#[derive(Debug)]
pub(crate) struct Initial<'a> {
    /// Offset in bytes.
    pub offset: u64,
    /// Its value.
    pub value: Operand<'a>,
}

/// An entry function.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// Line of its name.
    pub line: u32,
    /// Name.
    pub name: &'a str,
    /// Parameters.
    pub params: Vec<Variable<'a>>,
    /// `.maxntid`
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`
    pub required_block: Option<[u32; 3]>,
    /// `.reqnctapercluster`
    pub required_cluster: Option<[u32; 3]>,
    /// Its statements. Braces mark scopes.
    pub body: Vec<Statement<'a>>,
}

/// A statement of a kernel's body.
#[derive(Debug)]
pub(crate) enum Statement<'a> {
    /// `{`
    Open,
    /// `}`
    Close,
    /// `.reg .b32 %r<10>` (with a count) or `.reg .b32 x`.
    Registers {
        /// Line.
        line: u32,
        /// Type.
        ty: Ty,
        /// Name or prefix.
        name: &'a str,
        /// Number of registers, if a range.
        count: Option<u64>,
    },
    /// A variable.
    Variable(Variable<'a>),
    /// `name:`
    Label(u32, &'a str),
    /// `name: .branchtargets a, b;`
    Targets(u32, &'a str, Vec<&'a str>),
    /// An instruction.
    Instruction(Written<'a>),
}

/// An instruction as written.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    /// Line of its opcode.
    pub line: u32,
    /// Guard predicate and whether it is negated.
    pub guard: Option<(&'a str, bool)>,
    /// Opcode with all modifiers.
    pub opcode: &'a str,
    /// Operands, left to right; `a|b` is a [`Operand::Pair`].
    pub operands: Vec<Operand<'a>>,
}

/// An operand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'a> {
    /// A register, a symbol, a label or `_`, with an addend.
    Name(&'a str, i64),
    /// `!p`
    Not(&'a str),
    /// An integer.
    Int(i64),
    /// A single-precision literal, as bits.
    Single(u32),
    /// A double-precision literal, as bits.
    Double(u64),
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `a|b`
    Pair(&'a str, &'a str),
    /// `[base+offset]`; the base is None for an absolute address.
    Address(Option<&'a str>, i64),
    /// `[map, {c0, c1}]`
    Tensor(&'a str, i64, Vec<Operand<'a>>),
}
