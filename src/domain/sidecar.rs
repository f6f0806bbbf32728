//! The launch sidecar of a committed winner: all that a stranger needs to compile and launch the `.cu` beside it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::device::TimeSource;
use super::op::{Dtype, Role, TensorSpec};
use super::plan::{Initial, Launch, LaunchPlan, Workspace};
use super::variant::{Params, VariantHash};

/// The format that this version writes.
pub const SCHEMA: &str = "optloop.sidecar/1";

/// What stands in `<case>.json` beside a winner's `<case>.cu`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sidecar {
    /// The format, [`SCHEMA`].
    pub schema: String,
    /// The architecture to compile for, such as `sm_90a`.
    pub arch: String,
    /// The options to give NVRTC beside the architecture and the include paths.
    pub compile_options: Vec<String>,
    /// The tensors that the caller brings, by the name that arguments use.
    pub tensors: IndexMap<String, SidecarTensor>,
    /// The scratch buffers to allocate, by the name that arguments use.
    pub workspaces: IndexMap<String, SidecarWorkspace>,
    /// The launches, in stream order.
    pub launches: Vec<Launch>,
    /// Where the source comes from.
    pub variant: SidecarVariant,
    /// What was found when it was confirmed.
    pub measurement: SidecarMeasurement,
    /// What it was found with.
    pub environment: SidecarEnvironment,
}

/// A tensor, dense and row-major.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarTensor {
    /// Element type.
    pub dtype: Dtype,
    /// Extent of each axis, outermost first.
    pub shape: Vec<usize>,
    /// Input or output.
    pub role: Role,
}

/// A scratch buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarWorkspace {
    /// Size in bytes.
    pub bytes: usize,
    /// What it must hold before the first launch.
    pub initial: Initial,
}

/// The variant that won.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SidecarVariant {
    /// Its family.
    pub family: String,
    /// Its parameters.
    pub params: Params,
    /// The hash of its source.
    pub hash: VariantHash,
}

/// The confirmed time and error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SidecarMeasurement {
    /// The case it won.
    pub case: String,
    /// Median time of one execution of all launches, in microseconds.
    pub median_us: f64,
    /// 95% interval of the median, in microseconds.
    pub ci_us: [f64; 2],
    /// Samples taken.
    pub samples: usize,
    /// Executions of all launches in one sample.
    pub launches_per_sample: u32,
    /// The state of the caches, such as `warm`.
    pub regime: String,
    /// Whether the time is measured or modelled.
    pub time_source: TimeSource,
    /// `‖out − ref‖₂ / ‖ref‖₂` against the float64 reference.
    pub relative_l2: f64,
    /// The same for the worst row.
    pub worst_row: f64,
}

/// The device and the software.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarEnvironment {
    /// The device's product name.
    pub device: String,
    /// Driver version, where there is a driver.
    pub driver: Option<String>,
    /// NVRTC version.
    pub nvrtc: String,
    /// optloop's version.
    pub optloop: String,
}

impl Sidecar {
    /// Renders the text of the file.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Returns how to launch the winner.
    pub fn plan(&self) -> LaunchPlan {
        let workspace = |(name, space): (&String, &SidecarWorkspace)| Workspace {
            name: name.clone(),
            bytes: space.bytes,
            initial: space.initial,
        };
        LaunchPlan { workspaces: self.workspaces.iter().map(workspace).collect(), launches: self.launches.clone() }
    }
}

/// Names the tensors of a case as a sidecar does.
pub fn tensors(specs: &[TensorSpec]) -> IndexMap<String, SidecarTensor> {
    let entry = |t: &TensorSpec| SidecarTensor { dtype: t.dtype, shape: t.shape.clone(), role: t.role };
    specs.iter().map(|tensor| (tensor.name.clone(), entry(tensor))).collect()
}

/// Names the workspaces of a plan as a sidecar does.
pub fn workspaces(workspaces: &[Workspace]) -> IndexMap<String, SidecarWorkspace> {
    let entry = |w: &Workspace| SidecarWorkspace { bytes: w.bytes, initial: w.initial };
    workspaces.iter().map(|workspace| (workspace.name.clone(), entry(workspace))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::plan::{Arg, Scalar, ScalarValue};

    /// An example, for other modules' tests too.
    pub(crate) fn sidecar() -> Sidecar {
        let scalar = |name: &str, value| Arg::Scalar(Scalar { name: name.to_owned(), value });
        Sidecar {
            schema: SCHEMA.to_owned(),
            arch: "sm_90a".to_owned(),
            compile_options: vec!["-std=c++17".to_owned()],
            tensors: tensors(&[TensorSpec {
                name: "q".to_owned(),
                dtype: Dtype::F16,
                shape: vec![1, 64],
                role: Role::Input,
            }]),
            workspaces: workspaces(&[Workspace { name: "partial".to_owned(), bytes: 4096, initial: Initial::Zero }]),
            launches: vec![Launch {
                kernel: "fa2".to_owned(),
                grid: [16, 8, 1],
                block: [128, 1, 1],
                shared_bytes: 49152,
                cluster: None,
                args: vec![
                    Arg::Tensor("q".to_owned()),
                    Arg::Workspace("partial".to_owned()),
                    scalar("Sq", ScalarValue::I32(1024)),
                    scalar("scale", ScalarValue::F32(0.088_388_346)),
                ],
            }],
            variant: SidecarVariant {
                family: "fa2-mma".to_owned(),
                params: [("WARPS".to_owned(), 4), ("BC".to_owned(), 64)].into_iter().collect(),
                hash: VariantHash("00ff".to_owned()),
            },
            measurement: SidecarMeasurement {
                case: "b1".to_owned(),
                median_us: 98.7,
                ci_us: [98.5, 98.9],
                samples: 500,
                launches_per_sample: 3,
                regime: "warm".to_owned(),
                time_source: TimeSource::Measured,
                relative_l2: 2.5e-4,
                worst_row: 1e-3,
            },
            environment: SidecarEnvironment {
                device: "NVIDIA H200".to_owned(),
                driver: Some("13.0".to_owned()),
                nvrtc: "13.0".to_owned(),
                optloop: "0.1.0".to_owned(),
            },
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let text = sidecar().to_json().unwrap();
        assert_eq!(serde_json::from_str::<Sidecar>(&text).unwrap(), sidecar());
    }

    #[test]
    fn a_stranger_finds_every_number_of_a_launch() {
        let value = serde_json::to_value(sidecar()).unwrap();
        insta::assert_snapshot!(value["launches"][0], @r#"{"args":[{"tensor":"q"},{"workspace":"partial"},{"scalar":{"name":"Sq","type":"i32","value":1024}},{"scalar":{"name":"scale","type":"f32","value":0.0883883461356163}}],"block":[128,1,1],"cluster":null,"grid":[16,8,1],"kernel":"fa2","shared_bytes":49152}"#);
        insta::assert_snapshot!(value["tensors"], @r#"{"q":{"dtype":"f16","role":"input","shape":[1,64]}}"#);
        insta::assert_snapshot!(value["workspaces"], @r#"{"partial":{"bytes":4096,"initial":"zero"}}"#);
    }
}
