//! The launch sidecar of a committed winner: everything that you need to compile and launch the `.cu` next to it.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::code::ptx;
use super::compute::Compute;
use super::device::TimeSource;
use super::device::gpu_state::Graphs;
use super::device::regime::Regime;
use super::family::PlanRules;
use super::family::plan::{Initial, Launch, LaunchPlan, Workspace};
use super::ids::CaseName;
use super::measurement::comparison::{self, Comparison};
use super::measurement::conditions::Conditions;
use super::measurement::evaluation::Measurement;
use super::op::{Dims, Dtype, TensorRole, TensorSpec};
use super::statistics::sampling::MIN_SAMPLES;
use super::statistics::timing::Timing;
use super::statistics::{Interval, Ratio};
use super::text::escape;
use super::text::expected::in_words;
use super::text::toml_text::one_line;
use super::variant::{Params, VariantHash};
use super::workload::Workload;
use crate::error::{Error, error};

/// The format that this version writes.
pub const SCHEMA: &str = "optloop.sidecar/2";

/// The format of 0.1.0, which is still read. It names no source: the source of `<case>.json` is `<case>.cu`.
const FIRST_SCHEMA: &str = "optloop.sidecar/1";

/// The contents of a winner's `<case>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sidecar {
    /// The format, [`SCHEMA`] or an earlier one.
    pub schema: String,
    /// The source file in the same folder. Cases with the same source share it. None in the first format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The architecture to compile for, such as `sm_90a`.
    pub arch: String,
    /// The options to give NVRTC in addition to the architecture and the include paths.
    pub compile_options: Vec<String>,
    /// The tensors that the caller provides, by the name that arguments use.
    pub tensors: IndexMap<String, SidecarTensor>,
    /// The element type of its workload, which tensors of the op without a type of their own have. None in files of
    /// optloop 0.2.0 and earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// The precision in which its workload lets kernels multiply. None is written for that of the dtype.
    #[serde(default, skip_serializing_if = "Compute::is_dtype")]
    pub compute: Compute,
    /// The scratch buffers to allocate, by the name that arguments use.
    pub workspaces: IndexMap<String, SidecarWorkspace>,
    /// Launches that depend on weights alone, executed once for each weight before the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preparation: Vec<Launch>,
    /// The launches of every execution, in stream order.
    pub launches: Vec<Launch>,
    /// Where the source comes from.
    pub variant: SidecarVariant,
    /// The confirmed time and error.
    pub measurement: SidecarMeasurement,
    /// The device and the software of the measurement.
    pub environment: SidecarEnvironment,
    /// The shapes on which the source passed the acceptance checks of the session that committed it. Empty in older
    /// files, and where the checks ran before the session was resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proven_for: Vec<Dims>,
    /// The rules by which its launches follow from the dimensions. None in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<PlanRules>,
}

/// A tensor, dense and row-major.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarTensor {
    /// Element type.
    pub dtype: Dtype,
    /// Extent of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// Input or output.
    pub role: TensorRole,
}

/// A scratch buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarWorkspace {
    /// Size in bytes.
    pub bytes: usize,
    /// What the buffer must hold before the first launch.
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
    /// The workload of the case; none in files of the first release.
    #[serde(default)]
    pub workload: Option<String>,
    /// The case that the variant won.
    pub case: CaseName,
    /// The case's dimensions; none in files of the first release.
    #[serde(default)]
    pub dims: Option<Dims>,
    /// Median time of one execution of all launches, in microseconds.
    pub median_us: f64,
    /// 95% interval of the median, in microseconds.
    pub ci_us: [f64; 2],
    /// Time of one preparation of the weights, in microseconds, where it was taken. It is not part of the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation_us: Option<f64>,
    /// Samples taken.
    pub samples: usize,
    /// Executions of all launches in one sample.
    pub launches_per_sample: u32,
    /// The state of the caches.
    pub regime: Regime,
    /// Whether the time is measured or modelled.
    pub time_source: TimeSource,
    /// State of the graphs of the process; none in files from before it was kept, which are of the first state.
    #[serde(default, skip_serializing_if = "Graphs::is_alone")]
    pub graphs: Graphs,
    /// Time of an empty kernel as a node of a graph in that state, in nanoseconds, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_node_ns: Option<f64>,
    /// Relative L2 error over the whole output, `‖out − ref‖₂ / ‖ref‖₂` with `ref` from the float64 oracle.
    pub relative_l2: f64,
    /// The same for the worst row.
    pub worst_row: f64,
    /// The baseline, timed in turns with the variant in one run; none where it was not.
    #[serde(default)]
    pub ratio_to_baseline: Option<SidecarRatio>,
    /// How far from 1 the interval of the A/A control reached in that run.
    #[serde(default)]
    pub noise: Option<f64>,
    /// Median SM clock during the run, where it is known.
    #[serde(default)]
    pub sm_clock_mhz: Option<f64>,
}

/// A baseline's time over the variant's. Above 1, the variant is faster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SidecarRatio {
    /// The baseline's name.
    pub name: String,
    /// The estimate.
    pub estimate: f64,
    /// Lower end of its 95% interval.
    pub lo: f64,
    /// Upper end of its 95% interval.
    pub hi: f64,
}

impl SidecarVariant {
    /// Returns the file name of the source, such as `attention-mma-1234abcd56.cu`. The family is for readers. The hash
    /// identifies the text, so that cases with the same source share the file.
    pub fn source_name(&self) -> String {
        format!("{}-{}.cu", self.family, self.hash.short())
    }

    /// Returns the file name of a source that may be PTX.
    pub fn name_of(&self, source: &str) -> String {
        format!("{}-{}.{}", self.family, self.hash.short(), ptx::ending(source))
    }
}

impl SidecarMeasurement {
    /// Takes the time to report from a measurement, and the ratios from its comparison if there was one.
    pub fn of(conditions: &Conditions, measurement: &Measurement, timing: &Timing) -> Self {
        let comparison = measurement.comparison.as_ref();
        let baseline = comparison.and_then(|comparison| comparison.against(comparison::Role::Baseline));
        let machine = comparison.and_then(|comparison| comparison.challenger()?.machine.as_ref());
        Self {
            workload: Some(conditions.workload.clone()),
            case: conditions.case.clone(),
            dims: Some(conditions.dims.clone()),
            median_us: timing.median_ns / 1e3,
            ci_us: [timing.interval_ns.lo / 1e3, timing.interval_ns.hi / 1e3],
            preparation_us: measurement.preparation.and_then(|prepared| prepared.ns).map(|ns| ns / 1e3),
            samples: timing.samples_ns.len(),
            launches_per_sample: timing.launches_per_sample,
            regime: conditions.regime,
            time_source: conditions.time_source,
            graphs: conditions.graphs,
            graph_node_ns: comparison.and_then(|comparison| comparison.challenger()?.graph_node_ns),
            relative_l2: measurement.correctness.relative_l2,
            worst_row: measurement.correctness.worst_row,
            ratio_to_baseline: baseline.map(|(participant, Ratio { estimate, interval })| SidecarRatio {
                name: participant.name.clone(),
                estimate,
                lo: interval.lo,
                hi: interval.hi,
            }),
            noise: comparison
                .filter(|comparison| comparison.against(comparison::Role::Control).is_some())
                .map(Comparison::noise),
            sm_clock_mhz: machine.and_then(|machine| machine.sm_clock_mhz),
        }
    }

    /// Returns the interval to show, in microseconds; none if there are too few samples for one.
    pub fn shown_ci_us(&self) -> Option<[f64; 2]> {
        (self.samples >= MIN_SAMPLES).then_some(self.ci_us)
    }

    /// Returns the time in the store's form, without its samples.
    pub fn timing(&self) -> Timing {
        let [lo, hi] = self.ci_us;
        Timing {
            samples_ns: Vec::new(),
            launches_per_sample: self.launches_per_sample,
            median_ns: self.median_us * 1e3,
            interval_ns: Interval { lo: lo * 1e3, hi: hi * 1e3 },
        }
    }
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
    /// Parses the text of the file. Errors are one sentence without the file's name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let sidecar: Self = serde_json::from_str(text).map_err(|error| one_line(in_words(&error.to_string())))?;
        let texts: serde_json::Value = serde_json::from_str(text).map_err(|error| one_line(error.to_string()))?;
        check_lines("a text", &texts).map_err(|problem| one_line(problem.into()))?;
        // It names a file of an export.
        if !is_source_name(&sidecar.variant.source_name()) {
            return Err(error!("its family `{}` is not the name of a folder", sidecar.variant.family));
        }
        if !is_architecture(&sidecar.arch) {
            return Err(one_line(format!("its arch `{}` is not an architecture such as `sm_90a`", sidecar.arch)).into());
        }
        match (sidecar.schema.as_str(), &sidecar.source) {
            (FIRST_SCHEMA, None) => Ok(sidecar),
            (FIRST_SCHEMA, Some(_)) => Err(error!("`{FIRST_SCHEMA}` does not name a source")),
            (SCHEMA, Some(source)) if is_source_name(source) => Ok(sidecar),
            (SCHEMA, Some(source)) => {
                Err(one_line(format!("its source `{source}` is not the name of a .cu or .ptx file")).into())
            }
            (SCHEMA, None) => Err(Error::new("it does not name a source")),
            (other, _) => {
                let known = format!("`{SCHEMA}` and `{FIRST_SCHEMA}`");
                Err(one_line(format!("its schema is `{other}`, but this version of optloop reads {known}")).into())
            }
        }
    }

    /// Returns the path of the source, given the sidecar's own path.
    pub fn source_beside(&self, sidecar: &Path) -> PathBuf {
        match &self.source {
            Some(source) => sidecar.with_file_name(source),
            None => sidecar.with_extension("cu"),
        }
    }

    /// Returns the element type of its workload. An older file does not say it. It is then the type that the workload has
    /// now if that gives the tensors their types, or else the type of the first tensor.
    pub fn dtype_in(&self, workload: Option<&Workload>) -> Option<Dtype> {
        let fits = |workload: &&Workload| {
            let case = workload.cases.first();
            let tensors = case.map(|case| workload.op.tensors(&case.dims, workload.dtype)).unwrap_or_default();
            let now = tensors.iter().map(|tensor| (&tensor.name, tensor.dtype));
            now.eq(self.tensors.iter().map(|(name, tensor)| (name, tensor.dtype)))
        };
        let by_workload = || workload.filter(fits).map(|workload| workload.dtype);
        let of_first = || self.tensors.values().next().map(|tensor| tensor.dtype);
        self.dtype.or_else(by_workload).or_else(of_first)
    }

    /// Renders the text of the file.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let text = serde_json::to_string_pretty(&Self { rules: None, ..self.clone() })? + "\n";
        let Some(rules) = &self.rules else { return Ok(text) };
        // On one line: they are for programs.
        let open = text.strip_suffix("\n}\n").unwrap_or(&text);
        Ok(format!("{open},\n  \"rules\": {}\n}}\n", serde_json::to_string(rules)?))
    }

    /// Returns how to launch the winner.
    pub fn plan(&self) -> LaunchPlan {
        let workspace = |(name, space): (&String, &SidecarWorkspace)| Workspace {
            name: name.clone(),
            bytes: space.bytes,
            initial: space.initial,
        };
        let workspaces = self.workspaces.iter().map(workspace).collect();
        LaunchPlan { workspaces, preparation: self.preparation.clone(), launches: self.launches.clone() }
    }
}

/// Tells whether a text names an architecture: `sm_` with its number, and a letter for one with features of its own.
fn is_architecture(text: &str) -> bool {
    let number = text.strip_prefix("sm_").map(|number| number.strip_suffix(['a', 'f']).unwrap_or(number));
    number.is_some_and(|number| (2..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Refuses a text that is not one line. All of them are shown and exported.
fn check_lines(key: &str, value: &serde_json::Value) -> Result<(), Error> {
    match value {
        serde_json::Value::String(text) => escape::check_line(&format!("`{key}`"), text),
        serde_json::Value::Array(values) => values.iter().try_for_each(|value| check_lines(key, value)),
        serde_json::Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            escape::check_line("a key", key)?;
            check_lines(key, value)
        }),
        _ => Ok(()),
    }
}

/// Tells whether a name is that of a source in the sidecar's own folder and nothing else.
fn is_source_name(name: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let stem = name.strip_suffix(".cu").or_else(|| name.strip_suffix(".ptx"));
    stem.is_some_and(|stem| (1..=128).contains(&stem.len()) && stem.chars().all(safe))
}

/// Describes the tensors of a case in the sidecar's form.
pub fn tensors(specs: &[TensorSpec]) -> IndexMap<String, SidecarTensor> {
    let entry = |t: &TensorSpec| SidecarTensor { dtype: t.dtype, shape: t.shape.clone(), role: t.role };
    specs.iter().map(|tensor| (tensor.name.clone(), entry(tensor))).collect()
}

/// Describes the workspaces of a plan in the sidecar's form.
pub fn workspaces(workspaces: &[Workspace]) -> IndexMap<String, SidecarWorkspace> {
    let entry = |w: &Workspace| SidecarWorkspace { bytes: w.bytes, initial: w.initial };
    workspaces.iter().map(|workspace| (workspace.name.clone(), entry(workspace))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::family::plan::{Arg, Scalar, ScalarValue, TensorMap};
    use crate::domain::ids::IterationId;
    use crate::domain::op::Values;
    use crate::store::testing;

    /// An example, also for tests of other modules.
    pub(crate) fn sidecar() -> Sidecar {
        let scalar = |name: &str, value| Arg::Scalar(Scalar { name: name.to_owned(), value });
        Sidecar {
            schema: SCHEMA.to_owned(),
            source: Some("fa2-mma-00ff.cu".to_owned()),
            arch: "sm_90a".to_owned(),
            compile_options: vec!["-std=c++17".to_owned()],
            tensors: tensors(&[TensorSpec {
                name: "q".to_owned(),
                dtype: Dtype::F16,
                shape: vec![1, 64],
                role: TensorRole::Input,
                values: Values::Normal,
            }]),
            dtype: Some(Dtype::F16),
            compute: Compute::Dtype,
            workspaces: workspaces(&[Workspace { name: "partial".to_owned(), bytes: 4096, initial: Initial::Zero }]),
            preparation: Vec::new(),
            launches: vec![Launch {
                kernel: "fa2".to_owned(),
                grid: [16, 8, 1],
                block: [128, 1, 1],
                shared_bytes: 49152,
                cluster: None,
                programmatic: false,
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
                workload: Some("attention".to_owned()),
                case: "b1".into(),
                dims: Some([("S".to_owned(), 64)].into_iter().collect()),
                median_us: 98.7,
                ci_us: [98.5, 98.9],
                samples: 500,
                preparation_us: None,
                launches_per_sample: 3,
                regime: Regime::Warm,
                time_source: TimeSource::Measured,
                graphs: Graphs::AmongOthers,
                graph_node_ns: Some(710.0),
                relative_l2: 2.5e-4,
                worst_row: 1e-3,
                ratio_to_baseline: None,
                noise: None,
                sm_clock_mhz: None,
            },
            environment: SidecarEnvironment {
                device: "NVIDIA H200".to_owned(),
                driver: Some("13.0".to_owned()),
                nvrtc: "13.0".to_owned(),
                optloop: "0.1.0".to_owned(),
            },
            proven_for: Vec::new(),
            rules: None,
        }
    }

    #[test]
    fn written_data_reads_back_the_same() {
        let text = sidecar().to_json().unwrap();
        assert_eq!(serde_json::from_str::<Sidecar>(&text).unwrap(), sidecar());
    }

    /// The first committed winners are older than comparisons. Every winner has its source, and every source a winner.
    #[test]
    fn every_committed_winner_reads_and_has_its_source() {
        let variants = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/variants");
        let inside = |folder: &Path| -> Vec<PathBuf> {
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let is_json = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
        let mut read = 0;
        for device in inside(&variants) {
            let key = device.file_name().unwrap().to_str().unwrap();
            assert!(key.parse::<crate::domain::device::DeviceKey>().is_ok(), "{key}");
            for workload in inside(&device) {
                let (sidecars, sources): (Vec<_>, Vec<_>) = inside(&workload).into_iter().partition(is_json);
                let mut named = Vec::new();
                for path in &sidecars {
                    let sidecar = Sidecar::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
                    let source = sidecar.source_beside(path);
                    assert_eq!(sidecar.source, Some(sidecar.variant.source_name()), "{}", path.display());
                    let text = std::fs::read_to_string(&source).unwrap();
                    assert_eq!(VariantHash::of(&text), sidecar.variant.hash, "{}", source.display());
                    named.push(source);
                }
                assert!(sources.iter().all(|source| named.contains(source)), "{sources:?}");
                read += sidecars.len();
            }
        }
        assert!(read >= 53, "{read}");
    }

    /// A sidecar is a file of the project, and an export has its texts.
    #[test]
    fn a_text_of_several_lines_and_a_family_with_a_path_are_refused() {
        let refused = |change: fn(&mut Sidecar)| {
            let mut changed = sidecar();
            change(&mut changed);
            Sidecar::parse(&changed.to_json().unwrap()).unwrap_err()
        };
        insta::assert_snapshot!(refused(|it| it.environment.device = "H200\nimport os".to_owned()), @"`device` has a line break: write it on one line");
        insta::assert_snapshot!(refused(|it| it.variant.family = "../../x".to_owned()), @"its family `../../x` is not the name of a folder");
        insta::assert_snapshot!(refused(|it| it.arch = "sm_90a -I/".to_owned()), @"its arch `sm_90a -I/` is not an architecture such as `sm_90a`");
    }

    #[test]
    fn the_first_format_names_no_source_and_the_second_a_file_beside_it() {
        let path = Path::new("variants/w/b1.json");
        assert_eq!(sidecar().source_beside(path), Path::new("variants/w/fa2-mma-00ff.cu"));
        let first = Sidecar { schema: FIRST_SCHEMA.to_owned(), source: None, ..sidecar() };
        let first = Sidecar::parse(&first.to_json().unwrap()).unwrap();
        assert_eq!(first.source_beside(path), Path::new("variants/w/b1.cu"));
        let refused = |schema: &str, source: Option<&str>| {
            let odd = Sidecar { schema: schema.to_owned(), source: source.map(str::to_owned), ..sidecar() };
            Sidecar::parse(&odd.to_json().unwrap()).unwrap_err()
        };
        insta::assert_snapshot!(refused(SCHEMA, None), @"it does not name a source");
        insta::assert_snapshot!(refused(SCHEMA, Some("../b1.cu")), @"its source `../b1.cu` is not the name of a .cu or .ptx file");
        insta::assert_snapshot!(refused(SCHEMA, Some("b1.json")), @"its source `b1.json` is not the name of a .cu or .ptx file");
        insta::assert_snapshot!(refused(FIRST_SCHEMA, Some("b1.cu")), @"`optloop.sidecar/1` does not name a source");
        insta::assert_snapshot!(refused("optloop.sidecar/3", None), @"its schema is `optloop.sidecar/3`, but this version of optloop reads `optloop.sidecar/2` and `optloop.sidecar/1`");
    }

    #[test]
    fn a_file_without_the_later_fields_reads() {
        let mut value = serde_json::to_value(sidecar()).unwrap();
        for later in ["workload", "dims", "ratio_to_baseline", "noise", "sm_clock_mhz", "graphs", "graph_node_ns"] {
            assert!(value["measurement"].as_object_mut().unwrap().remove(later).is_some(), "{later}");
        }
        assert!(value.as_object_mut().unwrap().remove("dtype").is_some());
        let read: Sidecar = serde_json::from_value(value).unwrap();
        assert_eq!((read.dtype, read.dtype_in(None)), (None, Some(Dtype::F16)));
        assert_eq!((read.measurement.workload, read.measurement.dims), (None, None));
        assert_eq!((read.measurement.graphs, read.measurement.graph_node_ns), (Graphs::Alone, None));
    }

    #[test]
    fn a_tensor_map_and_a_programmatic_launch_come_back_as_they_were() {
        let map = TensorMap {
            name: "k_map".to_owned(),
            tensor: "k".to_owned(),
            dtype: Dtype::F16,
            sizes: vec![64, 100],
            stride_bytes: vec![128],
            box_sizes: vec![64, 32],
            swizzle_bytes: 128,
        };
        let mut written = sidecar();
        let second = Launch { programmatic: true, args: vec![Arg::TensorMap(map)], ..written.launches[0].clone() };
        written.launches.push(second);
        assert_eq!(Sidecar::parse(&written.to_json().unwrap()), Ok(written.clone()));
        assert_eq!(written.plan().launches, written.launches);
        let value = serde_json::to_value(&written.launches[1]).unwrap();
        assert_eq!(value["programmatic"], true);
        insta::assert_snapshot!(value["args"][0], @r#"{"tensor_map":{"box":[64,32],"dtype":"f16","name":"k_map","sizes":[64,100],"stride_bytes":[128],"swizzle_bytes":128,"tensor":"k"}}"#);
    }

    #[test]
    fn what_a_comparison_said_stands_beside_the_time() {
        let comparison = testing::comparison(
            "b1",
            vec![
                testing::participant(comparison::Role::Challenger, "tiled", Some(IterationId(2)), 80.0),
                testing::participant(comparison::Role::Control, "tiled", Some(IterationId(2)), 80.0),
                testing::participant(comparison::Role::Baseline, "torch sdpa (flash)", None, 100.0),
            ],
        );
        let mut measurement = testing::evaluation(80_000.0, true).measurements.remove(0);
        measurement.comparison = Some(comparison.clone());
        let found = SidecarMeasurement::of(&comparison.conditions, &measurement, &comparison.participants[0].timing);
        let ratio = found.ratio_to_baseline.unwrap();
        assert_eq!(ratio.name, "torch sdpa (flash)");
        assert!(
            ratio.lo <= ratio.estimate && ratio.estimate <= ratio.hi && (ratio.estimate - 1.25).abs() < 0.02,
            "{ratio:?}"
        );
        assert_eq!((found.noise, found.sm_clock_mhz), (Some(comparison.noise()), Some(1980.0)));
    }

    #[test]
    fn a_stranger_finds_every_number_of_a_launch() {
        let value = serde_json::to_value(sidecar()).unwrap();
        insta::assert_snapshot!(value["launches"][0], @r#"{"args":[{"tensor":"q"},{"workspace":"partial"},{"scalar":{"name":"Sq","type":"i32","value":1024}},{"scalar":{"name":"scale","type":"f32","value":0.0883883461356163}}],"block":[128,1,1],"cluster":null,"grid":[16,8,1],"kernel":"fa2","shared_bytes":49152}"#);
        insta::assert_snapshot!(value["tensors"], @r#"{"q":{"dtype":"f16","role":"input","shape":[1,64]}}"#);
        insta::assert_snapshot!(value["workspaces"], @r#"{"partial":{"bytes":4096,"initial":"zero"}}"#);
    }
}
