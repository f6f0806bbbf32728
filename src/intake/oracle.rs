//! An oracle in CUDA: its source says the arguments, and the user gives the grid and the block.

use super::kernels;

/// How the kernel of an oracle is launched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OracleKernel {
    /// The arguments, in the order of its parameters.
    pub args: Vec<String>,
    /// The number of blocks along x, y and z, as expressions over dimensions.
    pub grid: Vec<String>,
    /// The number of threads of a block along x, y and z.
    pub block: Vec<String>,
}

impl OracleKernel {
    /// Reads the parameters of the only kernel of a source, or of the one called `oracle`. The error is one sentence.
    pub fn read(text: &str, grid: Vec<String>, block: Vec<String>) -> Result<Self, String> {
        let found = kernels(text);
        let chosen = match &found[..] {
            [] => return Err("it has no `__global__` kernel".to_owned()),
            [only] => only,
            several => several.iter().find(|kernel| kernel.name == "oracle").ok_or_else(|| {
                let names: Vec<&str> = several.iter().map(|kernel| kernel.name.as_str()).collect();
                format!("it has the kernels {}: call the one to launch `oracle`", names.join(", "))
            })?,
        };
        let args = chosen.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        Ok(Self { args, grid, block })
    }
}
