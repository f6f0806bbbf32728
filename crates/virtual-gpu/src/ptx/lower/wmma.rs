//! `wmma`: products of whole tiles, whose fragments have no documented layout.
//!
//! Here they have that of `mma.sync`, so a product becomes some of those, and a load or a store of a fragment one of
//! each of its registers. A shape of 8 rows is that of 8 columns, transposed.

use super::builder::Lowerer;
use super::moves::space;
use super::opcode::Opcode;
use super::operand::{exactly, padded};
use super::symbols::Register;
use super::tensor::{same, shape};
use crate::program::{Address, Binary, LaneSpecial, Mma, Mods, NONE, Op, Semantics, Slot, Space, Ternary, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

/// Which matrix a fragment is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    A,
    B,
    Sums,
}

/// The place of a register of a fragment: what is added to the lane's group (`lane / 4`) and to its number in the
/// group.
type Shift = (u32, u32);

/// The rows, columns and depth of a product of tiles, and its element types.
#[derive(Debug, Clone, Copy)]
struct Tiles {
    m: u32,
    n: u32,
    k: u32,
    /// Of A and B.
    ty: Ty,
}

impl Tiles {
    /// Returns whether the product of the transposed matrices is computed.
    fn are_transposed(self) -> bool {
        self.m < self.n
    }

    /// Rows and columns of the product that is computed.
    fn extents(self) -> (u32, u32) {
        if self.are_transposed() { (self.n, self.m) } else { (self.m, self.n) }
    }

    /// Steps along k of one `mma.sync`, each of a register.
    fn steps(self) -> u32 {
        self.k / (4 * per_register(self.ty))
    }

    /// Returns the registers of a fragment of elements of a type.
    fn registers(self, role: Role, ty: Ty) -> Vec<Shift> {
        let (rows, columns) = self.extents();
        // The matrix with 16 rows in each `mma.sync`, if there are that many.
        let is_left = (role == Role::A) != self.are_transposed();
        let halves = if rows < 16 { 1 } else { 2 };
        let mut shifts = Vec::new();
        match role {
            Role::Sums => {
                let per = per_register(ty);
                for (row, column) in
                    (0..rows).step_by(8 * halves).flat_map(|row| tiles(columns).map(move |at| (row, at)))
                {
                    for half in 0..halves as u32 {
                        shifts.extend((0..2 / per).map(|odd| (row + 8 * half, column + odd)));
                    }
                }
            }
            _ if is_left => {
                for (row, step) in
                    (0..rows).step_by(8 * halves).flat_map(|row| (0..self.steps()).map(move |at| (row, at)))
                {
                    shifts.extend((0..halves as u32).map(|half| (row + 8 * half, 4 * step * per_register(ty))));
                }
            }
            _ => {
                let steps = |column| (0..self.steps()).map(move |step| (column, 4 * step * per_register(ty)));
                shifts.extend(tiles(columns).flat_map(steps));
            }
        }
        shifts
    }
}

/// The first columns of tiles of eight.
fn tiles(columns: u32) -> impl Iterator<Item = u32> {
    (0..columns).step_by(8)
}

/// Elements of a register.
fn per_register(ty: Ty) -> u32 {
    (32 / ty.bits()).max(1)
}

impl Lowerer<'_> {
    /// Lowers `wmma`.
    pub(super) fn wmma(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let what = opcode.next();
        if self.guard.is_some() {
            return Err(opcode.unsupported());
        }
        match what {
            Some("load") => {
                let [d, address, stride @ ..] = operands else { return Err("operands expected".into()) };
                self.wmma_access(opcode, d, address, stride, true)
            }
            Some("store") => {
                let [address, s, stride @ ..] = operands else { return Err("operands expected".into()) };
                self.wmma_access(opcode, s, address, stride, false)
            }
            Some("mma") => self.wmma_multiply(opcode, operands),
            _ => Err(opcode.unsupported()),
        }
    }

    fn wmma_access(
        &mut self,
        opcode: &mut Opcode<'_>,
        fragment: &Operand<'_>,
        address: &Operand<'_>,
        stride: &[Operand<'_>],
        loads: bool,
    ) -> Result<(), Problem> {
        let role = match opcode.next() {
            Some("a") => Role::A,
            Some("b") => Role::B,
            Some("c" | "d") => Role::Sums,
            _ => return Err(opcode.unsupported()),
        };
        opcode.take_all(&["sync", "aligned"]);
        let by_rows = opcode.need(|part| super::arithmetic::choice(part, "row", "col"))?;
        let (m, n, k) = opcode.need(shape)?;
        let space = opcode.choose(space).unwrap_or(Space::Generic);
        let ty = opcode.element()?;
        // The depth of a step depends on the type of A and B, which sums do not tell. Their layout does not depend on
        // it.
        let tiles = Tiles { m: m.into(), n: n.into(), k: k.into(), ty };
        if !is_known(tiles, role, ty) {
            return Err(opcode.unsupported());
        }
        let shifts = tiles.registers(role, ty);
        let register = fragment_type(ty);
        let mut slots = Vec::new();
        for part in super::operand::parts(fragment) {
            slots.push(if loads { self.any_register(part)? } else { self.held(part, register)? });
        }
        // Fragments of f16 have every element twice.
        if slots.is_empty() || slots.len() % shifts.len() != 0 {
            return Err(opcode.unsupported());
        }
        // Along which dimension a lane's group moves, and along which dimension neighbours in memory are.
        let group_is_row = match role {
            Role::A => true,
            Role::B => false,
            Role::Sums => !tiles.are_transposed(),
        };
        let contiguous = group_is_row == by_rows;
        let width = match (role, by_rows) {
            (Role::A, true) => k.into(),
            (Role::A, false) | (Role::Sums, false) => m.into(),
            (Role::B, true) | (Role::Sums, true) => u32::from(n),
            (Role::B, false) => k.into(),
        };
        let stride = match stride {
            [stride] => self.held(stride, Ty::U32)?,
            _ => self.number(width)?,
        };
        let base = self.tile_base(address, space)?;
        let step = if role == Role::Sums { 2 } else { per_register(ty) };
        let access = Access { ty, space, stride, base, contiguous, step, loads };
        let origin = self.lane_offset(&access)?;
        for (index, &register) in slots.iter().enumerate() {
            if loads || index < shifts.len() {
                self.wmma_register(&access, origin, shifts[index % shifts.len()], register)?;
            }
        }
        Ok(())
    }

    /// Loads or stores a register of a fragment.
    fn wmma_register(
        &mut self,
        access: &Access,
        origin: Register,
        at: Shift,
        register: Register,
    ) -> Result<(), Problem> {
        let (ty, bits) = (access.ty, access.ty.bits());
        let per = per_register(ty);
        if access.contiguous || per == 1 {
            let packed = if bits == 64 { Ty::B64 } else { Ty::B32 };
            let addr = self.element_address(access, origin, at)?;
            return self.move_register(access, packed, addr, register);
        }
        if bits < 8 {
            return Err(Problem::Unsupported("wmma of 4-bit integers in the other layout".to_owned()));
        }
        let narrow = if bits == 16 { Ty::B16 } else { Ty::B8 };
        let elements: Vec<Register> = (0..per).map(|_| self.new_register(narrow)).collect();
        if !access.loads {
            let parts = self.operands_of(&elements)?;
            let a = self.operand_of(register);
            self.emit(Op::Unpack { wide: false, part_bits: bits as u8, parts, a });
        }
        for (element, &part) in (0..).zip(&elements) {
            let addr = self.element_address(access, origin, (at.0, at.1 + element))?;
            self.move_register(access, narrow, addr, part)?;
        }
        if access.loads {
            let d = self.operand_of(register);
            let parts = self.operands_of(&elements)?;
            self.emit(Op::Pack { wide: false, part_bits: bits as u8, d, parts });
        }
        Ok(())
    }

    fn operands_of(&mut self, registers: &[Register]) -> Result<[Slot; 4], Problem> {
        let slots: Vec<Slot> = registers.iter().map(|&register| self.operand_of(register)).collect();
        padded(&slots)
    }

    fn move_register(
        &mut self,
        access: &Access,
        ty: Ty,
        at: (Register, bool),
        register: Register,
    ) -> Result<(), Problem> {
        let slot = self.operand_of(register);
        let addr = Address { base: self.operand_of(at.0), wide: at.1, offset: 0 };
        let (space, semantics, slots) = (access.space, Semantics::WEAK, padded(&[slot])?);
        self.emit(if access.loads {
            Op::Ld { space, ty, count: 1, read_only: false, semantics, d: slots, addr }
        } else {
            Op::St { space, ty, count: 1, semantics, s: slots, addr }
        });
        Ok(())
    }

    /// Returns the offset of a lane's first element, in elements.
    fn lane_offset(&mut self, access: &Access) -> Result<Register, Problem> {
        let lane = self.new_register(Ty::U32);
        let d = self.operand_of(lane);
        self.emit(Op::Special { d, wide: false, which: LaneSpecial::LaneId });
        let two = self.number(2)?;
        let group = self.combine(Binary::Shr, lane, two)?;
        let three = self.number(3)?;
        let number = self.combine(Binary::And, lane, three)?;
        let step = self.number(access.step)?;
        if access.contiguous {
            let along = self.combine(Binary::Mul, number, step)?;
            self.multiply_add(group, access.stride, along)
        } else {
            let along = self.combine(Binary::Mul, number, step)?;
            self.multiply_add(along, access.stride, group)
        }
    }

    /// Returns the address of an element, and whether it has 64 bits.
    fn element_address(
        &mut self,
        access: &Access,
        origin: Register,
        (group, along): Shift,
    ) -> Result<(Register, bool), Problem> {
        let (far, near) = if access.contiguous { (group, along) } else { (along, group) };
        let far = self.number(far)?;
        let near = self.number(near)?;
        let offset = self.multiply_add(far, access.stride, origin)?;
        let offset = self.combine(Binary::Add, offset, near)?;
        // Two elements of 4 bits make a byte.
        let (offset, bytes) = if access.ty.bits() < 8 {
            let one = self.number(1)?;
            (self.combine(Binary::Shr, offset, one)?, 1)
        } else {
            (offset, access.ty.bytes())
        };
        let bytes = self.number(bytes)?;
        let wide = access.base.ty.bits() == 64;
        let (op, to) = if wide { (Ternary::MadWide, Ty::U64) } else { (Ternary::Mad, Ty::U32) };
        let address = self.new_register(to);
        let (d, a, b, c) =
            (self.operand_of(address), self.operand_of(offset), self.operand_of(bytes), self.operand_of(access.base));
        self.emit(Op::Ternary { op, ty: Ty::U32, mods: Mods::default(), d, a, b, c });
        Ok((address, wide))
    }

    /// Returns a register with the address of a tile.
    fn tile_base(&mut self, address: &Operand<'_>, space: Space) -> Result<Register, Problem> {
        let (address, _) = self.address(address, space)?;
        let ty = if address.wide { Ty::U64 } else { Ty::U32 };
        let base = self.new_register(ty);
        let d = self.operand_of(base);
        let b = self
            .constant(crate::program::visit::File::of(ty), crate::program::Constant::Bits(bits(address.offset, ty)))?;
        self.emit(Op::Binary { op: Binary::Add, ty, mods: Mods::default(), d, a: address.base, b });
        Ok(base)
    }

    /// Returns a register with a number.
    fn number(&mut self, value: u32) -> Result<Register, Problem> {
        self.held(&Operand::Int(value.into()), Ty::U32)
    }

    /// Returns a register with the value of an operand.
    fn held(&mut self, operand: &Operand<'_>, ty: Ty) -> Result<Register, Problem> {
        if let Operand::Name(name, 0) = operand
            && let Some(register) = self.scopes.register(name)
            && register.ty.bits() == ty.bits()
        {
            return Ok(register);
        }
        let register = self.new_register(ty);
        let a = self.read(operand, ty)?;
        let d = self.operand_of(register);
        self.emit(Op::Mov { ty, d, a });
        Ok(register)
    }

    fn combine(&mut self, op: Binary, a: Register, b: Register) -> Result<Register, Problem> {
        let result = self.new_register(Ty::U32);
        let (d, a, b) = (self.operand_of(result), self.operand_of(a), self.operand_of(b));
        self.emit(Op::Binary { op, ty: Ty::U32, mods: Mods::default(), d, a, b });
        Ok(result)
    }

    fn multiply_add(&mut self, a: Register, b: Register, c: Register) -> Result<Register, Problem> {
        let result = self.new_register(Ty::U32);
        let (d, a, b, c) = (self.operand_of(result), self.operand_of(a), self.operand_of(b), self.operand_of(c));
        self.emit(Op::Ternary { op: Ternary::Mad, ty: Ty::U32, mods: Mods::default(), d, a, b, c });
        Ok(result)
    }

    fn wmma_multiply(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        opcode.take_all(&["sync", "aligned", "row", "col", "rn"]);
        let (m, n, k) = opcode.need(shape)?;
        let c_ty = opcode.element()?;
        let first = opcode.element()?;
        // Products of f16 name only the types of the sums.
        let (a_ty, b_ty, d_ty) = match opcode.peek_element() {
            None => (Ty::F16, Ty::F16, first),
            Some(_) => (opcode.element()?, first, opcode.element()?),
        };
        let tiles = Tiles { m: m.into(), n: n.into(), k: k.into(), ty: a_ty };
        let known = is_known(tiles, Role::A, a_ty) && is_known(tiles, Role::Sums, c_ty);
        if !known || d_ty != c_ty {
            return Err(opcode.unsupported());
        }
        let [d, a, b, c] = exactly(operands)?;
        let (ab, sums) = (fragment_type(a_ty), fragment_type(c_ty));
        let (mut left, mut right) = (self.fragment(a, ab)?, self.fragment(b, ab)?);
        let (mut a_ty, mut b_ty) = (a_ty, b_ty);
        if tiles.are_transposed() {
            (left, right, a_ty, b_ty) = (right, left, b_ty, a_ty);
        }
        let (c, d) = (self.fragment(c, sums)?, self.fragment(d, sums)?);
        let (rows, columns) = tiles.extents();
        let [rows_each, steps] = [rows.min(16), tiles.steps()];
        let (a_each, b_each) = ((rows_each / 8 * steps) as usize, steps as usize);
        let each = (2 / per_register(c_ty) * rows_each / 8) as usize;
        let across = (columns / 8) as usize;
        same(d.len(), each * across * (rows / rows_each) as usize)?;
        same(c.len(), d.len())?;
        for tile in 0..d.len() / each {
            let (row, column) = (tile / across, tile % across);
            let (Some(a), Some(b)) =
                (left.get(row * a_each..(row + 1) * a_each), right.get(column * b_each..(column + 1) * b_each))
            else {
                return Err(opcode.unsupported());
            };
            let part = tile * each..(tile + 1) * each;
            let mma = Mma {
                m: rows_each as u8,
                n: 8,
                k,
                a_ty,
                b_ty,
                c_ty,
                a: self.operands_of(a)?,
                b: self.operands_of(b)?[..2].try_into().unwrap_or([NONE; 2]),
                c: self.operands_of(&c[part.clone()])?,
                d: self.operands_of(&d[part])?,
            };
            self.emit(Op::Mma(Box::new(mma)));
        }
        Ok(())
    }

    /// Returns the registers of a fragment.
    fn fragment(&mut self, operand: &Operand<'_>, ty: Ty) -> Result<Vec<Register>, Problem> {
        super::operand::parts(operand).iter().map(|part| self.held(part, ty)).collect()
    }
}

/// The loads or stores of a fragment.
struct Access {
    ty: Ty,
    space: Space,
    /// Elements from one row, or column, to the next.
    stride: Register,
    /// The tile's address.
    base: Register,
    /// Whether the elements of a register are neighbours in memory.
    contiguous: bool,
    /// Elements from one lane of a group to the next.
    step: u32,
    loads: bool,
}

/// Returns whether PTX has tiles of these sizes, and whether they are modelled.
fn is_known(tiles: Tiles, role: Role, ty: Ty) -> bool {
    let shape = (tiles.m, tiles.n, tiles.k);
    let large = matches!(shape, (16, 16, 16) | (32, 8, 16) | (8, 32, 16));
    match (role, ty) {
        (Role::Sums, Ty::F16) => large,
        (Role::Sums, Ty::F32) => large || shape == (16, 16, 8),
        (Role::Sums, Ty::S32) => large || shape == (8, 8, 32),
        (Role::Sums, _) => ty == Ty::F64 && shape == (8, 8, 4),
        (_, Ty::F16 | Ty::Bf16 | Ty::S8 | Ty::U8) => large,
        (_, Ty::Tf32) => shape == (16, 16, 8),
        (_, Ty::F64) => shape == (8, 8, 4),
        (_, Ty::S4 | Ty::U4) => shape == (8, 8, 32),
        _ => false,
    }
}

/// Returns the type of the registers of a fragment.
fn fragment_type(ty: Ty) -> Ty {
    if ty == Ty::F64 { Ty::F64 } else { Ty::B32 }
}

fn bits(offset: i32, ty: Ty) -> u64 {
    let bits = i64::from(offset) as u64;
    if ty.bits() == 64 { bits } else { bits & u64::from(u32::MAX) }
}
