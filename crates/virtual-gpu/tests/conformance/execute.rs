//! Runs a case on the virtual GPU, with all checks enabled.

use virtual_gpu::counters::Counters;
use virtual_gpu::gpu::Gpu;
use virtual_gpu::program::Module;
use virtual_gpu::{Element, Fill, Launch, Options, Swizzle, TensorMap, VirtualGpu};

use super::suite::{Arg, Case, Manifest, Map};
use super::tables;

/// Runs a case and returns the output's bytes and the counters.
pub fn run(module: &Module, manifest: &Manifest, case: &Case) -> Result<(Vec<u8>, Counters), String> {
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let loaded = gpu.load(module.clone()).map_err(|e| e.to_string())?;
    let mut put = |data: &[u8]| -> Result<u64, String> {
        let address = gpu.alloc(data.len() as u64).map_err(|e| e.to_string())?;
        gpu.write(address, data).map_err(|e| e.to_string())?;
        Ok(address)
    };
    let before = case.before(&manifest.tables);
    let out = put(&before)?;
    let mut args = Vec::new();
    for arg in &case.args {
        args.push(match arg {
            Arg::Table(name) => put(&tables::bytes(&manifest.tables, name))?.to_le_bytes().to_vec(),
            // Always true; the value only marks the argument.
            Arg::Out(_) => out.to_le_bytes().to_vec(),
            Arg::U32(number) => number.to_le_bytes().to_vec(),
            Arg::TensorMap(map) => {
                let of = map.table.as_ref().map(|name| put(&tables::bytes(&manifest.tables, name)));
                encode(map, of.unwrap_or(Ok(out))?)?.to_vec()
            }
        });
    }
    let launch = Launch {
        grid: case.grid,
        block: case.block,
        cluster: case.cluster,
        dynamic_shared_bytes: case.shared,
        args: &args,
    };
    // Stores that count bank conflicts are of different values to the same words.
    let options = Options { races: module.file != "banks.ptx", ..Options::default() };
    let counters = gpu.launch(&loaded, &case.kernel, &launch, &options).map_err(|e| e.to_string())?;
    let output = gpu.read(out, before.len() as u64).map_err(|e| e.to_string())?;
    Ok((output, counters))
}

/// Returns the parameter for a tensor map.
fn encode(map: &Map, address: u64) -> Result<[u8; 128], String> {
    let wide = |numbers: &[u32]| numbers.iter().map(|&number| u64::from(number)).collect();
    let swizzle = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];
    let map = TensorMap {
        element: match map.element {
            1 => Element::U8,
            2 => Element::U16,
            4 => Element::U32,
            8 => Element::U64,
            other => return Err(format!("cases.json has a tensor with elements of {other} bytes")),
        },
        address,
        dims: wide(&map.dims),
        strides: wide(&map.strides),
        box_dims: map.box_dims.clone(),
        element_strides: Vec::new(),
        swizzle: swizzle.into_iter().find(|it| it.span() == map.swizzle).ok_or("cases.json has an unknown swizzle")?,
        fill: Fill::Zeros,
    };
    map.encode()
}
