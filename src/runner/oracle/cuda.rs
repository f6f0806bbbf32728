//! Oracles that are CUDA kernels in double precision, on the device that executes the kernels to judge.
//!
//! A wrong oracle may write out of bounds or never end. In the worker that judges kernels, this would look like a kernel's
//! fault. So an oracle has a process of its own, which starts with the first call and serves all further ones. A failed call
//! ends it.

mod process;
mod source;

use std::iter;
use std::process::Command;
use std::sync::Mutex;

use numerics::convert;

use self::process::{Call, Reply, Request, Tensor};
use self::source::{Compiled, Parameter};
use super::{LIMIT_NAME, TIME_LIMIT};
use crate::domain::device::DeviceInfo;
use crate::domain::op::oracle::{Oracle, OracleArg, OracleCall, OracleLaunch, OracleType, OracleValue, is_stretchable};
use crate::domain::op::{Dtype, TensorSpec};
use crate::error::{Error, Result, error};
use crate::runner::device::{self, DeviceChoice};
use crate::runner::inputs;
use crate::runner::subprocess::{Limits, Subprocess};

pub use process::serve;

/// The limits of a call. Its memory is the device's.
const LIMITS: Limits = Limits { timeout: TIME_LIMIT, timeout_source: LIMIT_NAME, memory: None };

/// What messages call the process, after "the oracle failed".
const NAME: &str = "it";

/// Input values that are sent at once.
const CHUNK: usize = 1 << 22;

/// The text of a CUDA source, and where its kernel runs.
pub struct CudaOracle {
    /// The name of its file, for messages.
    file: String,
    text: String,
    place: Option<Place>,
    state: Mutex<State>,
}

/// The device of an oracle.
struct Place {
    choice: DeviceChoice,
    arch: String,
}

/// What calls leave for the next one.
#[derive(Default)]
struct State {
    compiled: Option<Compiled>,
    process: Option<Subprocess>,
}

impl Place {
    /// Returns the device itself if it executes kernels, or else the virtual GPU.
    fn of(device: &DeviceInfo) -> Self {
        match device.id.parse() {
            Ok(choice @ (DeviceChoice::Cuda(_) | DeviceChoice::Virtual(_))) => {
                Self { choice, arch: device.arch.clone() }
            }
            _ => {
                let choice = DeviceChoice::fallback();
                let arch = device::describe(&choice).map_or_else(|_| device.arch.clone(), |info| info.arch);
                Self { choice, arch }
            }
        }
    }

    fn start(&self) -> Result<Subprocess> {
        let exe = std::env::current_exe().map_err(|error| error!("optloop's executable is not known: {error}"))?;
        let arguments = |command: &mut Command| {
            command.args(["oracle", "--device", &self.choice.to_string()]);
        };
        let started = Subprocess::start(NAME, &exe, arguments, LIMITS);
        let mut process = started.map_err(|error| error!("its process cannot be started: {error}"))?;
        match process.wait_until_ready()? {
            Reply::Ready => Ok(process),
            Reply::Failed(problem) => Err(Error::new(problem)),
            Reply::Values(_) => Err(Error::new("its process sent an unexpected reply")),
        }
    }
}

impl CudaOracle {
    /// Makes an oracle of a file's text. Nothing is compiled before the first call. It cannot be called without a device.
    pub fn new(file: String, text: String, device: Option<&DeviceInfo>) -> Self {
        Self { file, text, place: device.map(Place::of), state: Mutex::default() }
    }

    fn compile(&self, place: &Place, launch: &OracleLaunch, call: &OracleCall<'_>) -> Result<Compiled> {
        let parameters: Vec<Parameter> = launch.args.iter().map(|arg| parameter(arg, call)).collect();
        source::compile((&self.file, &self.text), launch.kernel.as_deref(), &parameters, &place.arch)
    }
}

impl Oracle for CudaOracle {
    fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>> {
        let launch = call.launch.as_ref().ok_or("its manifest does not say how to launch it")?;
        let place = self.place.as_ref().ok_or("it runs only where kernels do")?;
        let mut state = self.state.lock().map_err(|_| "an earlier call failed")?;
        let _calling = super::begin();
        let compiled = match state.compiled.take() {
            Some(compiled) => compiled,
            None => self.compile(place, launch, call)?,
        };
        let compiled = state.compiled.insert(compiled);
        let request = Call {
            artifact: compiled.artifact.clone(),
            entry: compiled.entry.clone(),
            name: compiled.name.clone(),
            launch: launch.clone(),
            tensors: tensors(call),
        };
        let mut process = match state.process.take() {
            Some(process) => process,
            None => place.start()?,
        };
        let values = answer(&mut process, request, call)?;
        // A process that failed to answer is dropped, and so killed.
        state.process = Some(process);
        Ok(values)
    }

    fn uses_device(&self) -> bool {
        true
    }
}

/// Sends a call with its inputs, and waits for the outputs.
fn answer(process: &mut Subprocess, request: Call, call: &OracleCall<'_>) -> Result<Vec<f64>> {
    let expected = call.outputs.iter().map(|(tensor, rows)| rows.len() * tensor.row_len()).sum();
    let encoded = |values: &[f32]| Request::Values(inputs::encode(values, Dtype::F32));
    let chunks = call.inputs.iter().flat_map(|(_, values)| values.chunks(CHUNK)).map(encoded);
    let mut values: Vec<f64> = Vec::with_capacity(expected);
    process.converse(iter::once(Request::Call(Box::new(request))).chain(chunks), |reply| match reply {
        Reply::Values(bytes) => {
            let before = values.len();
            values.resize(before + bytes.len() / size_of::<f64>(), 0.0);
            convert::decode_f64(&bytes, &mut values[before..]);
            (values.len() >= expected).then(|| Ok(std::mem::take(&mut values)))
        }
        Reply::Failed(problem) => Some(Err(Error::new(problem))),
        Reply::Ready => Some(Err(Error::new("its process sent an unexpected reply"))),
    })?
}

/// Describes the tensors of a call: those with values in the order in which they are sent, then the rest.
fn tensors(call: &OracleCall<'_>) -> Vec<Tensor> {
    let rows_of =
        |name: &str| call.outputs.iter().find(|(output, _)| output.name == name).map(|(_, rows)| rows.clone());
    let tensor = |spec: &TensorSpec, is_read| {
        let rows = rows_of(&spec.name);
        let kind = OracleType::of(spec.dtype);
        let (name, elements, row_len) = (spec.name.clone(), spec.elements(), spec.row_len());
        let is_stretched = call.is_stretched && is_read && is_stretchable(spec);
        Tensor { name, kind, elements, row_len, is_read, is_stretched, rows }
    };
    let read = call.inputs.iter().map(|(spec, _)| tensor(spec, true));
    let is_read = |name: &str| call.inputs.iter().any(|(input, _)| input.name == name);
    let only_written =
        call.outputs.iter().filter(|(spec, _)| !is_read(&spec.name)).map(|(spec, _)| tensor(spec, false));
    read.chain(only_written).collect()
}

/// Returns what the kernel's parameter for an argument must be.
fn parameter(arg: &OracleArg, call: &OracleCall<'_>) -> Parameter {
    let name = &arg.name;
    let written = call.outputs.iter().find(|(output, _)| output.name == *name);
    let (is_written, is_int64) = (written.is_some(), written.is_some_and(|(output, _)| output.dtype == Dtype::I64));
    let input = call.inputs.iter().find(|(input, _)| input.name == *name);
    let (what, types): (&str, &'static [&'static str]) = match (arg.value, input) {
        (OracleValue::Size(_), _) => ("the dimension", &["long long", "long", "unsigned long long", "unsigned long"]),
        (OracleValue::Scalar(_), _) => ("the scalar", &["double"]),
        // A float does not hold every integer of 64 bits.
        (OracleValue::Tensor, _) if is_written && is_int64 => ("the output", &["long long *", "long *"]),
        (OracleValue::Tensor, Some(_)) if is_written => ("the in-place tensor", &["double *"]),
        (OracleValue::Tensor, None) => ("the output", &["double *"]),
        (OracleValue::Tensor, Some((spec, _))) => match OracleType::of(spec.dtype) {
            OracleType::Float => ("the input", &["const double *", "double *"]),
            OracleType::Int | OracleType::Int32 | OracleType::Uint32 | OracleType::Int64 => {
                ("the input", &["const long long *", "long long *", "const long *", "long *"])
            }
            OracleType::Bool => ("the input", &["const unsigned char *", "unsigned char *", "const bool *", "bool *"]),
        },
    };
    Parameter { what: format!("{what} `{name}`"), types }
}
