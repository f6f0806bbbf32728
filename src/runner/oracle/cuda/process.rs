//! The process that executes an oracle's kernel, and the messages to it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::mpsc::Receiver;

use numerics::{compare, convert};
use serde::{Deserialize, Serialize};

use crate::domain::code::artifact::Artifact;
use crate::domain::family::plan::{Arg, Launch, LaunchPlan, Scalar, ScalarValue};
use crate::domain::op::oracle::{OracleLaunch, OracleType, OracleValue, stretched};
use crate::error::{Result, error};
use crate::runner::child;
use crate::runner::device::{self, Buffer, Device, DeviceChoice, Fault, Work};
use crate::runner::frames::{self, Message};
use crate::runner::threads;

/// What every byte of an output holds before the launch. So an element is a NaN that no arithmetic gives.
const POISON: u8 = 0xff;

/// What a device calls the kernels that it executes.
const VARIANT: &str = "the variant's";

/// Elements that one thread widens at once.
const CHUNK: usize = 1 << 16;

/// Bytes of outputs that are sent at once.
const CHUNK_BYTES: usize = 32 << 20;

/// A request to the process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Execute a kernel. The inputs follow.
    Call(Box<Call>),
    /// The next values of the inputs, as their types are sent.
    Values(#[serde(with = "serde_bytes")] Vec<u8>),
}

/// A kernel to execute.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    /// The compiled source.
    pub artifact: Artifact,
    /// The kernel's name in it.
    pub entry: String,
    /// The kernel's name in the source.
    pub name: String,
    /// Grid, block and arguments.
    pub launch: OracleLaunch,
    /// The tensors. Those with values come first.
    pub tensors: Vec<Tensor>,
}

/// A tensor of a call.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tensor {
    /// The name that the launch uses.
    pub name: String,
    /// The type of its elements, as they are sent.
    pub kind: OracleType,
    /// The number of its elements.
    pub elements: usize,
    /// The extent of its last dimension.
    pub row_len: usize,
    /// Whether its values follow the call.
    pub is_read: bool,
    /// Whether the kernel gets the [stretched] values.
    pub is_stretched: bool,
    /// The rows to send back. None if the kernel only reads it.
    pub rows: Option<Vec<usize>>,
}

/// A reply of the process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The device is open.
    Ready,
    /// The next values of the outputs, as 64-bit floats or integers.
    Values(#[serde(with = "serde_bytes")] Vec<u8>),
    /// There is no device, or the call failed: one sentence. The process ends.
    Failed(String),
}

/// The caller sends no secrets.
impl Message for Request {}

impl Message for Reply {
    fn free_texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Failed(text) => vec![text],
            Self::Ready | Self::Values(_) => Vec::new(),
        }
    }
}

/// Serves calls on a device until standard input ends, or until one fails.
pub fn serve(choice: &DeviceChoice) -> anyhow::Result<()> {
    let requests = child::requests::<Request>();
    let mut out = child::replies()?;
    let mut device = match device::open(choice) {
        Ok(device) => device,
        Err(reason) => return Ok(frames::write(&mut out, &Reply::Failed(reason.into()))?),
    };
    frames::write(&mut out, &Reply::Ready)?;
    while let Ok(Request::Call(call)) = requests.recv() {
        let Some(inputs) = inputs(&requests, &call) else { break };
        match carry_out(device.as_mut(), &call, &inputs) {
            Ok(outputs) => send(&mut out, &outputs)?,
            Err(problem) => {
                frames::write(&mut out, &Reply::Failed(problem.into()))?;
                // The device may be lost, and giving it back may hang, so the operating system has to do that.
                child::end();
            }
        }
    }
    Ok(())
}

/// Receives the values of every tensor that has some. None if the requests end.
fn inputs(requests: &Receiver<Request>, call: &Call) -> Option<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for tensor in call.tensors.iter().filter(|tensor| tensor.is_read) {
        let bytes = tensor.elements * sent_bytes(tensor.kind);
        let mut values = Vec::with_capacity(bytes);
        while values.len() < bytes {
            let Ok(Request::Values(more)) = requests.recv() else { return None };
            values.extend(more);
        }
        all.push(values);
    }
    Some(all)
}

fn send(out: &mut impl Write, outputs: &[u8]) -> std::io::Result<()> {
    // Even no values are an answer.
    let mut rest = outputs;
    loop {
        let (chunk, after) = rest.split_at(rest.len().min(CHUNK_BYTES));
        frames::write(out, &Reply::Values(chunk.to_vec()))?;
        rest = after;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// Executes the kernel once, and returns the wanted rows of every output. The error is one sentence.
fn carry_out(device: &mut dyn Device, call: &Call, inputs: &[Vec<u8>]) -> Result<Vec<u8>> {
    let explained = |fault: Fault| match fault {
        Fault::Refused(problem)
        | Fault::NotModelled(problem)
        | Fault::OutOfMemory(problem)
        | Fault::Crashed { message: problem, .. }
        | Fault::TimedOut(problem)
        | Fault::TooLong(problem) => {
            // The device takes it for a variant, and knows its kernel by the name for the linker.
            problem.replace(VARIANT, "the oracle's").replace(&call.entry, &call.name)
        }
        Fault::Broken(problem) => format!("the device failed: {problem}"),
    };
    let module = device.load(&call.artifact).map_err(explained)?;
    let buffers = allocate(device, call, inputs).map_err(explained)?;
    let plan = LaunchPlan { launches: vec![launch(call)], ..LaunchPlan::default() };
    let work = Work { module, plan: &plan, buffers: &buffers, restores: &[], problem: None };
    device.launch(&work).map_err(explained)?;
    let written: Vec<Buffer> = call.tensors.iter().map(|tensor| buffers[&tensor.name]).collect();
    let mut intact = call.tensors.iter().zip(device.were_intact(&written).map_err(explained)?);
    if let Some((tensor, _)) = intact.find(|(_, is_intact)| !is_intact) {
        return Err(error!("`{}` writes outside of the tensor `{}`", call.name, tensor.name));
    }
    let mut outputs = Vec::new();
    for tensor in &call.tensors {
        let Some(rows) = &tensor.rows else { continue };
        let bytes = device.read(buffers[&tensor.name]).map_err(explained)?;
        check_written(tensor, &bytes)?;
        let row_bytes = tensor.row_len * size_of::<f64>();
        rows.iter().for_each(|row| outputs.extend_from_slice(&bytes[row * row_bytes..][..row_bytes]));
    }
    buffers.into_values().try_for_each(|buffer| device.free(buffer)).map_err(explained)?;
    // The next call loads it again, so that no call sees the global variables of another.
    device.unload(module).map_err(explained)?;
    Ok(outputs)
}

/// Allocates the tensors, with their values or poison.
fn allocate(device: &mut dyn Device, call: &Call, inputs: &[Vec<u8>]) -> Result<HashMap<String, Buffer>, Fault> {
    let mut values = inputs.iter();
    let mut buffers = HashMap::new();
    for tensor in &call.tensors {
        let buffer = device.alloc(tensor.elements * tensor.element_bytes())?;
        // Those with values come first.
        match values.next() {
            Some(values) => {
                let mut values = widened(values, tensor.kind, tensor.is_float());
                if tensor.is_stretched {
                    stretch(&mut values);
                }
                device.write(buffer, &values)?;
            }
            None => device.poison(buffer, POISON)?,
        }
        buffers.insert(tensor.name.clone(), buffer);
    }
    Ok(buffers)
}

impl Tensor {
    /// Tells whether the kernel sees doubles. A tensor that is written holds them, whatever the op's kernels write, except
    /// integers of 64 bits.
    fn is_float(&self) -> bool {
        self.kind == OracleType::Float || self.rows.is_some() && self.kind != OracleType::Int64
    }

    fn element_bytes(&self) -> usize {
        if self.kind == OracleType::Bool && !self.is_float() { 1 } else { 8 }
    }
}

/// Returns the bytes in which a value of an input is sent.
fn sent_bytes(kind: OracleType) -> usize {
    if kind == OracleType::Int64 { 8 } else { 4 }
}

/// Turns what was sent into the elements that the kernel reads.
fn widened(values: &[u8], kind: OracleType, is_float: bool) -> Vec<u8> {
    let (from, to) = (sent_bytes(kind), if kind == OracleType::Bool && !is_float { 1 } else { 8 });
    let mut widened = vec![0; values.len() / from * to];
    threads::fill(&mut widened, CHUNK * to, |place, bytes| {
        let values = &values[place * CHUNK * from..];
        if kind == OracleType::Float {
            return convert::widen_f32(values, bytes);
        }
        let elements = bytes.chunks_exact_mut(to).zip(values.chunks_exact(from));
        elements.for_each(|(bytes, sent)| {
            let word = u32::from_le_bytes(sent[..4].try_into().expect("four bytes are sent at least"));
            let number = match kind {
                OracleType::Int32 => i64::from(word as i32),
                OracleType::Uint32 => i64::from(word),
                OracleType::Int64 => i64::from_le_bytes(sent.try_into().expect("eight bytes are sent")),
                OracleType::Float | OracleType::Int | OracleType::Bool => f32::from_bits(word) as i64,
            };
            match kind {
                _ if is_float => bytes.copy_from_slice(&(number as f64).to_le_bytes()),
                OracleType::Bool => bytes[0] = u8::from(number != 0),
                _ => bytes.copy_from_slice(&number.to_le_bytes()),
            }
        });
    });
    widened
}

/// Stretches doubles.
fn stretch(bytes: &mut [u8]) {
    for element in bytes.chunks_exact_mut(size_of::<f64>()) {
        let number = f64::from_le_bytes((&*element).try_into().expect("a chunk has 8 bytes"));
        element.copy_from_slice(&stretched(number).to_le_bytes());
    }
}

fn launch(call: &Call) -> Launch {
    let OracleLaunch { grid, block, args, .. } = &call.launch;
    let scalar = |name: &String, value| Arg::Scalar(Scalar { name: name.clone(), value });
    let args = args.iter().map(|arg| match arg.value {
        OracleValue::Tensor => Arg::Tensor(arg.name.clone()),
        OracleValue::Size(size) => scalar(&arg.name, ScalarValue::I64(size)),
        OracleValue::Scalar(value) => scalar(&arg.name, ScalarValue::F64(value)),
    });
    Launch {
        kernel: call.entry.clone(),
        grid: *grid,
        block: *block,
        shared_bytes: 0,
        cluster: None,
        programmatic: false,
        args: args.collect(),
    }
}

/// Refuses an output with an element that still holds poison.
fn check_written(tensor: &Tensor, bytes: &[u8]) -> Result<()> {
    // Every integer is one that a kernel may write.
    if tensor.is_read || !tensor.is_float() || compare::filled(bytes, size_of::<f64>(), POISON) == 0 {
        return Ok(());
    }
    let is_poison = |element: &[u8]| element.iter().all(|byte| *byte == POISON);
    match bytes.chunks_exact(size_of::<f64>()).position(is_poison) {
        None => Ok(()),
        Some(at) => {
            let (row, column) = (at / tensor.row_len, at % tensor.row_len);
            let name = &tensor.name;
            Err(error!("it does not write element {column} of row {row} of `{name}`")
                .hint("write every element of every output"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(elements: usize, row_len: usize) -> Tensor {
        let (name, kind) = ("y".to_owned(), OracleType::Float);
        Tensor { name, kind, elements, row_len, is_read: false, is_stretched: false, rows: Some(vec![0]) }
    }

    #[test]
    fn an_element_that_is_not_written_is_named_and_a_computed_nan_is_none() {
        let mut bytes: Vec<u8> = [1.0, f64::NAN, -f64::NAN, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(check_written(&output(4, 2), &bytes), Ok(()));
        bytes[24..].fill(POISON);
        insta::assert_snapshot!(check_written(&output(4, 2), &bytes).unwrap_err(), @"it does not write element 1 of row 1 of `y`: write every element of every output");
    }

    #[test]
    fn inputs_are_widened_without_a_change_of_their_values() {
        let values: Vec<u8> = [0.1_f32, -3.0, 0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let floats: Vec<u8> = [0.1_f32, -3.0, 0.0].iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect();
        assert_eq!(widened(&values, OracleType::Float, true), floats);
        assert_eq!(widened(&values[4..], OracleType::Int, false)[..9], [0xfd, 255, 255, 255, 255, 255, 255, 255, 0]);
        assert_eq!(widened(&values[4..], OracleType::Int, true)[..8], (-3.0_f64).to_le_bytes());
        let ones: Vec<u8> = [1.0_f32, 0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(widened(&ones, OracleType::Bool, false), [1, 0]);
        assert_eq!(widened(&[255; 4], OracleType::Int32, false), (-1_i64).to_le_bytes());
        assert_eq!(widened(&[255; 4], OracleType::Uint32, false), i64::from(u32::MAX).to_le_bytes());
        assert_eq!(widened(&[254; 8], OracleType::Int64, false), [254; 8]);
    }

    #[test]
    fn a_long_answer_is_sent_in_parts_and_an_empty_one_in_one() {
        let parts = |bytes: usize| {
            let mut sent = Vec::new();
            send(&mut sent, &vec![7; bytes]).unwrap();
            let (mut sent, mut parts) = (&sent[..], Vec::new());
            while let Some(Reply::Values(part)) = frames::read(&mut sent).unwrap() {
                parts.push(part.len());
            }
            parts
        };
        assert_eq!(parts(0), [0]);
        assert_eq!(parts(CHUNK_BYTES + 8), [CHUNK_BYTES, 8]);
    }
}
