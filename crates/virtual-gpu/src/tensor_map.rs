//! Tensor maps: the shape, box and swizzle of a tensor in global memory, for `cp.async.bulk.tensor`.

use crate::program::Ty;

/// First bytes of a map in this crate's encoding.
const MAGIC: [u8; 8] = *b"vgpu-map";

/// Maximum number of dimensions.
const MAX_RANK: usize = 5;

/// Maximum bytes of a box: the range of an mbarrier (PTX ISA, tx-count), more than any block's shared memory.
const MAX_BOX_BYTES: u64 = (1 << 20) - 1;

/// How the 16-byte chunks of a box are permuted in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Swizzle {
    /// No permutation.
    #[default]
    None,
    /// Within 32 bytes.
    Bytes32,
    /// Within 64 bytes.
    Bytes64,
    /// Within 128 bytes.
    Bytes128,
}

impl Swizzle {
    /// Returns the bytes of a permuted group, 0 for none.
    pub fn span(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Bytes32 => 32,
            Self::Bytes64 => 64,
            Self::Bytes128 => 128,
        }
    }

    /// Returns the swizzled shared address: the chunk's index XOR the index of its 128-byte row.
    pub(crate) fn apply(self, address: u32) -> u32 {
        let mask = (self.span() / 16).saturating_sub(1);
        address ^ ((address >> 7 & mask) << 4)
    }
}

/// The type of a tensor's elements (CUDA driver API, `CUtensorMapDataType`). Copies depend on its size only, reductions on all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// `CU_TENSOR_MAP_DATA_TYPE_UINT8`, also for 8-bit floats.
    U8,
    /// `CU_TENSOR_MAP_DATA_TYPE_UINT16`.
    U16,
    /// `CU_TENSOR_MAP_DATA_TYPE_UINT32`.
    U32,
    /// `CU_TENSOR_MAP_DATA_TYPE_INT32`.
    S32,
    /// `CU_TENSOR_MAP_DATA_TYPE_UINT64`.
    U64,
    /// `CU_TENSOR_MAP_DATA_TYPE_INT64`.
    S64,
    /// `CU_TENSOR_MAP_DATA_TYPE_FLOAT16`.
    F16,
    /// `CU_TENSOR_MAP_DATA_TYPE_BFLOAT16`.
    Bf16,
    /// `CU_TENSOR_MAP_DATA_TYPE_FLOAT32`.
    F32,
    /// `CU_TENSOR_MAP_DATA_TYPE_FLOAT64`.
    F64,
}

impl Element {
    const ALL: [Self; 10] =
        [Self::U8, Self::U16, Self::U32, Self::S32, Self::U64, Self::S64, Self::F16, Self::Bf16, Self::F32, Self::F64];

    /// Returns its bytes.
    pub fn bytes(self) -> u32 {
        self.ty().bytes()
    }

    pub(crate) fn ty(self) -> Ty {
        match self {
            Self::U8 => Ty::U8,
            Self::U16 => Ty::U16,
            Self::U32 => Ty::U32,
            Self::S32 => Ty::S32,
            Self::U64 => Ty::U64,
            Self::S64 => Ty::S64,
            Self::F16 => Ty::F16,
            Self::Bf16 => Ty::Bf16,
            Self::F32 => Ty::F32,
            Self::F64 => Ty::F64,
        }
    }
}

/// Value that a load stores for elements outside the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fill {
    /// Zeros.
    #[default]
    Zeros,
    /// A special NaN; not supported.
    Nan,
}

/// Describes a tensor in global memory for tiled copies, as the arguments of `cuTensorMapEncodeTiled` do.
///
/// The driver's encoding is undocumented, so [`TensorMap::encode`] has its own. Such a map works only on the virtual
/// GPU, and a map from the driver does not work here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The type of an element.
    pub element: Element,
    /// Global address of the first element.
    pub address: u64,
    /// Elements along each dimension, innermost first; 1 to 5 dimensions.
    pub dims: Vec<u64>,
    /// Bytes between neighbouring elements along each dimension but the innermost.
    pub strides: Vec<u64>,
    /// Elements of a box along each dimension.
    pub box_dims: Vec<u32>,
    /// Steps in elements along each dimension. Empty means 1 everywhere, the only supported value.
    pub element_strides: Vec<u32>,
    /// The layout of a box in shared memory.
    pub swizzle: Swizzle,
    /// Value of elements outside the tensor.
    pub fill: Fill,
}

impl TensorMap {
    /// Checks what `cuTensorMapEncodeTiled` checks and returns the 128 bytes of the kernel parameter.
    ///
    /// # Errors
    ///
    /// Fails with a sentence about the first broken rule.
    pub fn encode(&self) -> Result<[u8; 128], String> {
        self.check()?;
        let mut bytes = [0; 128];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(8, &[self.element as u8, self.dims.len() as u8, self.swizzle.span() as u8]);
        put(16, &self.address.to_le_bytes());
        for (i, dim) in self.dims.iter().enumerate() {
            put(24 + 8 * i, &dim.to_le_bytes());
        }
        for (i, stride) in self.strides.iter().enumerate() {
            put(64 + 8 * i, &stride.to_le_bytes());
        }
        for (i, &size) in self.box_dims.iter().enumerate() {
            put(96 + 2 * i, &(size as u16).to_le_bytes());
        }
        Ok(bytes)
    }

    /// Reads a map that [`TensorMap::encode`] wrote.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not such a map.
    pub fn decode(bytes: &[u8; 128]) -> Result<Self, String> {
        let number = |at: usize, width: usize| {
            bytes[at..at + width].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let rank = usize::from(bytes[9]);
        let swizzle = match bytes[10] {
            0 => Some(Swizzle::None),
            32 => Some(Swizzle::Bytes32),
            64 => Some(Swizzle::Bytes64),
            128 => Some(Swizzle::Bytes128),
            _ => None,
        };
        let kind = swizzle.zip(Element::ALL.get(usize::from(bytes[8])));
        let map =
            kind.filter(|_| bytes[..8] == MAGIC && (1..=MAX_RANK).contains(&rank)).map(|(swizzle, &element)| Self {
                element,
                address: number(16, 8),
                dims: (0..rank).map(|i| number(24 + 8 * i, 8)).collect(),
                strides: (0..rank - 1).map(|i| number(64 + 8 * i, 8)).collect(),
                box_dims: (0..rank).map(|i| number(96 + 2 * i, 2) as u32).collect(),
                element_strides: Vec::new(),
                swizzle,
                fill: Fill::Zeros,
            });
        map.filter(|map| map.check().is_ok())
            .ok_or_else(|| "these 128 bytes are not a tensor map; pass the result of TensorMap::encode".to_owned())
    }

    /// Returns the bytes of a box.
    pub fn box_bytes(&self) -> u32 {
        self.box_dims.iter().product::<u32>() * self.element.bytes()
    }

    fn check(&self) -> Result<(), String> {
        let rank = self.dims.len();
        if !(1..=MAX_RANK).contains(&rank) {
            return Err(format!("a tensor map of {rank} dimensions; give it 1 to {MAX_RANK}"));
        }
        let lists = [("strides", self.strides.len(), rank - 1), ("box dimensions", self.box_dims.len(), rank)];
        if let Some((name, got, wanted)) = lists.into_iter().find(|(_, got, wanted)| got != wanted) {
            return Err(format!("{got} {name} of a tensor of {rank} dimensions; give {wanted}"));
        }
        if !self.address.is_multiple_of(16) {
            return Err(format!("the tensor's address {:#x}; it must be a multiple of 16", self.address));
        }
        if let Some(dim) = self.dims.iter().find(|dim| !(1..=1 << 32).contains(*dim)) {
            return Err(format!("a dimension of {dim} elements; it must have 1 to 2^32"));
        }
        if let Some(stride) = self.strides.iter().find(|stride| !stride.is_multiple_of(16) || **stride >= 1 << 40) {
            return Err(format!("a stride of {stride} bytes; it must be a multiple of 16 below 2^40"));
        }
        if self.element_strides.iter().any(|&stride| stride != 1) {
            return Err("element strides other than 1 are not supported; copy whole boxes".to_owned());
        }
        if self.fill == Fill::Nan {
            return Err("filling with NaN is not supported; fill with zeros".to_owned());
        }
        self.check_box()
    }

    fn check_box(&self) -> Result<(), String> {
        if let Some(size) = self.box_dims.iter().find(|size| !(1..=256).contains(*size)) {
            return Err(format!("a box of {size} elements along a dimension; it must have 1 to 256"));
        }
        let bytes =
            self.box_dims.iter().map(|&size| u64::from(size)).product::<u64>() * u64::from(self.element.bytes());
        if bytes > MAX_BOX_BYTES {
            return Err(format!("a box of {bytes} bytes; make it fit into the shared memory of a block"));
        }
        let (row, span) = (self.box_dims[0] * self.element.bytes(), self.swizzle.span());
        if !row.is_multiple_of(16) {
            return Err(format!("a box with rows of {row} bytes; they must be a multiple of 16"));
        }
        // The machine accepts shorter rows and spreads them in a way that is not modelled.
        if span != 0 && row != span {
            return Err(format!("a box with rows of {row} bytes; with this swizzle make them {span} bytes"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane() -> TensorMap {
        TensorMap {
            element: Element::F16,
            address: 0x10_0000_0000,
            dims: vec![100, 40],
            strides: vec![208],
            box_dims: vec![64, 32],
            element_strides: vec![1, 1],
            swizzle: Swizzle::Bytes128,
            fill: Fill::Zeros,
        }
    }

    #[test]
    fn survives_a_round_trip() {
        let flat = TensorMap { element_strides: Vec::new(), ..plane() };
        assert_eq!(TensorMap::decode(&plane().encode().unwrap()), Ok(flat));
        let five = TensorMap {
            element: Element::U64,
            address: 16,
            dims: vec![1 << 32, 1, 2, 3, 4],
            strides: vec![16, 32, 48, (1 << 40) - 16],
            box_dims: vec![2, 1, 2, 3, 256],
            element_strides: Vec::new(),
            swizzle: Swizzle::None,
            fill: Fill::Zeros,
        };
        assert_eq!(TensorMap::decode(&five.encode().unwrap()), Ok(five));
    }

    #[test]
    fn refuses_what_the_driver_refuses() {
        let wrong = [
            (TensorMap { address: 8, ..plane() }, "0x8"),
            (TensorMap { dims: vec![], ..plane() }, "0 dimensions"),
            (TensorMap { dims: vec![0, 1], ..plane() }, "0 elements"),
            (TensorMap { dims: vec![8; 6], ..plane() }, "6 dimensions"),
            (TensorMap { strides: vec![], ..plane() }, "0 strides"),
            (TensorMap { strides: vec![200], ..plane() }, "200 bytes"),
            (TensorMap { strides: vec![1 << 40], ..plane() }, "below 2^40"),
            (TensorMap { box_dims: vec![64], ..plane() }, "1 box dimensions"),
            (TensorMap { box_dims: vec![64, 257], ..plane() }, "257 elements"),
            (TensorMap { box_dims: vec![4, 4], ..plane() }, "8 bytes"),
            (
                TensorMap {
                    element: Element::U64,
                    box_dims: vec![256; 4],
                    dims: vec![9; 4],
                    strides: vec![16; 3],
                    ..plane()
                },
                "fit into",
            ),
            (TensorMap { box_dims: vec![128, 4], ..plane() }, "make them 128 bytes"),
            (TensorMap { element_strides: vec![1, 2], ..plane() }, "element strides"),
            (TensorMap { fill: Fill::Nan, ..plane() }, "NaN"),
        ];
        for (map, part) in wrong {
            let error = map.encode().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn refuses_invalid_tensor_maps() {
        assert!(TensorMap::decode(&[0; 128]).is_err());
        let mut bytes = plane().encode().unwrap();
        bytes[8] = 3;
        assert!(TensorMap::decode(&bytes).unwrap_err().contains("are not a tensor map"));
    }
}
