//! Texts of a stranger in every field of an export: the code is the same as with harmless ones.

use std::io::Write as _;
use std::process::{Command, Stdio};

use pulldown_cmark::{Event, Options, Parser};

use super::{File, Target, Winner, files};
use crate::domain::compute::Compute;
use crate::domain::device::{DeviceInfo, DeviceKey};
use crate::domain::family::PlanRules;
use crate::domain::family::plan::{Arg, Initial, Launch};
use crate::domain::op::{DimSpec, Dims, Dtype, Op, TensorRole, TensorSpec, Values};
use crate::domain::sidecar::{Sidecar, SidecarWorkspace, tensors, tests::sidecar};
use crate::domain::workload::{BaselineKey, Case, Tolerance, Workload};

/// Texts that end a string, a docstring or a comment, or begin something else.
const HOSTILE: [&str; 9] = [
    "\"\"\"; import os; os.system('touch ran'); \"\"\"",
    "\"",
    "'''\\",
    "*/ int stranger = system(\"touch ran\"); /*",
    "ends with a backslash \\",
    "trigraph ??/",
    "a\nimport os\r\nb\u{2028}c\u{85}d",
    ")cuda\", \"x\"}; int stranger; R\"cuda(",
    "</data> <script>alert(1)</script> | [x](javascript:y) `code` \u{202e} # x",
];

/// Has texts of a stranger, and one dimension that no input tells.
struct StrangeOp(&'static [DimSpec]);

impl Op for StrangeOp {
    fn name(&self) -> &'static str {
        "strange"
    }

    fn dims(&self) -> &'static [DimSpec] {
        self.0
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        let tensor = |name: &str, role| {
            let (name, shape) = (name.to_owned(), vec![dims["N"] as usize]);
            TensorSpec { name, dtype, shape, role, values: Values::Normal }
        };
        vec![tensor("x", TensorRole::Input), tensor("y", TensorRole::Output)]
    }

    fn scalars(&self, _dims: &Dims) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    fn flop(&self, _dims: &Dims) -> f64 {
        1.0
    }

    fn oracle(&self, _dims: &Dims, _inputs: &[Vec<f32>], _rows: &[usize]) -> Result<Vec<f64>, crate::error::Error> {
        Ok(Vec::new())
    }
}

/// Exports a winner with a text in every field that takes one.
fn exported(text: &str, target: Target) -> Vec<File> {
    let about: &'static str = Box::leak(text.to_owned().into_boxed_str());
    let dims = vec![DimSpec { name: "N", about, range: (1, 64) }, DimSpec { name: "MODE", about, range: (0, 3) }];
    let op: &'static dyn Op = Box::leak(Box::new(StrangeOp(Box::leak(dims.into_boxed_slice()))));
    let dims: Dims = [("N".to_owned(), 8), ("MODE".to_owned(), 2)].into();
    let torch = "x.relu()".to_owned();
    let workload = Workload {
        name: "strange".to_owned(),
        about: text.to_owned(),
        op,
        dtype: Dtype::F32,
        compute: Compute::Tf32,
        tolerance: Tolerance { relative_l2: 1e-3, worst_row: 1e-3 },
        initial_kernel: Some("strange".to_owned()),
        baseline: Some(BaselineKey::Torch { torch, others: Default::default() }),
        cases: vec![Case { name: "n8".into(), dims: dims.clone(), regime: Default::default() }],
    };
    let mut sidecar: Sidecar = sidecar();
    // Its digits are the compute capability.
    sidecar.arch = text.replace(|c: char| c.is_ascii_digit(), "");
    sidecar.compile_options = vec![text.to_owned()];
    sidecar.tensors = tensors(&op.tensors(&dims, Dtype::F32));
    sidecar.workspaces = [(text.to_owned(), SidecarWorkspace { bytes: 4, initial: Initial::Zero })].into();
    sidecar.launches = vec![Launch {
        kernel: text.to_owned(),
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        cluster: None,
        programmatic: false,
        args: vec![Arg::Tensor("x".to_owned()), Arg::Workspace(text.to_owned()), Arg::Tensor("y".to_owned())],
    }];
    sidecar.measurement.case = text.into();
    sidecar.environment.device = text.to_owned();
    sidecar.environment.nvrtc = text.to_owned();
    let device = "nvidia-h200-132sm-140gib".parse().unwrap();
    let winner = Winner { device, sidecar, source: format!("// {text}\n"), dims, proven: Vec::new() };
    files(&workload, &[winner], target).unwrap()
}

/// Returns pairs of a file and its counterpart with a harmless text, for all hostile texts.
fn pairs(target: Target, ending: &str) -> Vec<(String, String)> {
    let of = |text: &str| -> Vec<String> {
        let files = exported(text, target).into_iter().filter(|file| file.path.ends_with(ending));
        files.map(|file| file.text).collect()
    };
    let harmless = of("Harmless");
    assert!(!harmless.is_empty());
    HOSTILE.iter().flat_map(|text| of(text).into_iter().zip(harmless.clone())).collect()
}

#[test]
fn python_has_the_same_syntax_tree_whatever_texts_say() {
    let code = "\
import ast, json, sys
def tree(text):
    found = ast.parse(text)
    for node in ast.walk(found):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ''
    return ast.dump(found)
for hostile, harmless in json.load(sys.stdin):
    assert tree(hostile) == tree(harmless), hostile
";
    let plans = HOSTILE.map(|text| (plans(text, "TWICE"), plans("Harmless", "TWICE"))).to_vec();
    let all = [pairs(Target::Python, "__init__.py"), pairs(Target::Torch, "__init__.py"), plans].concat();
    let mut python = Command::new("python3");
    let mut python = python.args(["-c", code]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(serde_json::to_string(&all).unwrap().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Exports a winner that is proven on two shapes, with texts of a stranger in its case, source and rules. Returns its `plans.py`.
fn plans(text: &str, derived: &str) -> String {
    let dims = vec![
        DimSpec { name: "N", about: "size", range: (1, 64) },
        DimSpec { name: "MODE", about: "mode", range: (0, 3) },
    ];
    let op: &'static dyn Op = Box::leak(Box::new(StrangeOp(Box::leak(dims.into_boxed_slice()))));
    let shape = |n: i64| -> Dims { [("N".to_owned(), n), ("MODE".to_owned(), 2)].into() };
    let workload = Workload {
        name: "strange".to_owned(),
        about: text.to_owned(),
        op,
        dtype: Dtype::F32,
        compute: Compute::Dtype,
        tolerance: Tolerance { relative_l2: 1e-3, worst_row: 1e-3 },
        initial_kernel: Some("strange".to_owned()),
        baseline: None,
        cases: vec![Case { name: "n8".into(), dims: shape(8), regime: Default::default() }],
    };
    let mut sidecar: Sidecar = sidecar();
    sidecar.compile_options = vec![text.to_owned()];
    sidecar.measurement.case = text.into();
    sidecar.variant.family = text.to_owned();
    sidecar.variant.params.clear();
    sidecar.tensors = tensors(&op.tensors(&shape(8), Dtype::F32));
    sidecar.workspaces.clear();
    let rules = serde_json::json!({
        "constants": ["MODE"], "derived": { derived: "N * MODE" }, "constraints": ["N > 1 && MODE == 2"],
        "launches": [{ "kernel": "k", "grid": ["N + MODE"], "block": ["32"], "args": ["x", "y", derived, "N"] }],
    });
    let rules: PlanRules = serde_json::from_value(rules).unwrap();
    let device: DeviceKey = "nvidia-h200-132sm-140gib".parse().unwrap();
    let info = DeviceInfo::of_arch(&sidecar.arch).unwrap();
    let plan = |n: i64| rules.plan(&sidecar.variant.params, &shape(n), (op, Dtype::F32), &info).unwrap();
    sidecar.launches = plan(8).launches;
    let proven = vec![(shape(20), plan(20))];
    sidecar.rules = Some(rules);
    let winner = Winner { device, sidecar, source: String::new(), dims: shape(8), proven };
    let files = files(&workload, &[winner], Target::Python).unwrap();
    files.into_iter().find(|file| file.path.ends_with("plans.py")).unwrap().text
}

#[test]
fn launches_are_functions_of_the_dimensions_that_are_no_constants() {
    let text = plans("Harmless", "TWICE");
    let (function, _) = text.split_once("# Each source").unwrap();
    insta::assert_snapshot!(function, @r#"
    """The launches of winners on other shapes than those of table.json, as functions of the dimensions."""


    def launch_0(N):
        """Launches Harmless-00ff.cu. Returns None for dimensions that it cannot compute."""
        TWICE = (N * 2)
        if not ((N > 1) and (2 == 2)):
            return None
        return {
            "workspaces": {
            },
            "launches": [
                {
                    "kernel": "k",
                    "grid": [(N + 2), 1, 1],
                    "block": [32, 1, 1],
                    "shared_bytes": 0,
                    "cluster": None,
                    "programmatic": False,
                    "args": [
                        {"tensor": "x"},
                        {"tensor": "y"},
                        {"scalar": {"name": "TWICE", "type": "i32", "value": TWICE}},
                        {"scalar": {"name": "N", "type": "i32", "value": N}},
                    ],
                },
            ],
        }
    "#);
    assert!(text.contains(r#""ranges": {"N": (8, 20), "MODE": (2, 2)}"#), "{text}");
    for hostile in HOSTILE {
        assert!(plans("Harmless", hostile).contains("PLANS = [\n]"), "no text of a sidecar is a name");
    }
}

#[test]
fn cpp_has_the_same_tokens_whatever_texts_say() {
    for ending in [".h", ".cpp"] {
        for (hostile, harmless) in pairs(Target::C, ending) {
            let (hostile, harmless) = (without_texts(&hostile), without_texts(&harmless));
            let mut lines = hostile.lines().zip(harmless.lines());
            assert_eq!(lines.find(|(hostile, harmless)| hostile != harmless), None);
            assert_eq!(hostile.len(), harmless.len());
        }
    }
    let shown = without_texts("a /* x */ b // y \\\n z\nc \"d\\\"\" R\"e(f\")e\" // ??/\ng\nh");
    assert_eq!(shown, "a  b \nc \"\" \"\" \nh");
}

/// Removes the contents of comments and strings.
fn without_texts(code: &str) -> String {
    let code = code.replace("??/", "\\");
    let (mut kept, mut rest) = (String::new(), &*code);
    while let Some(c) = rest.chars().next() {
        let after = |end: &str, from: usize| rest[from..].find(end).map_or("", |at| &rest[from + at + end.len()..]);
        rest = if rest.starts_with("/*") {
            after("*/", 2)
        } else if rest.starts_with("//") {
            kept.push('\n');
            let mut lines = rest.split_inclusive('\n');
            // A backslash at the end continues the comment.
            let length: usize = lines.by_ref().take_while(|line| line.ends_with("\\\n")).map(str::len).sum();
            rest[length..].split_once('\n').map_or("", |(_, next)| next)
        } else if let Some(raw) = rest.strip_prefix("R\"") {
            kept.push_str("\"\"");
            let (delimiter, text) = raw.split_once('(').unwrap();
            text.split_once(&format!("){delimiter}\"")).unwrap().1
        } else if c == '"' {
            kept.push_str("\"\"");
            let mut at = 1;
            while !rest[at..].starts_with('"') {
                assert!(!rest[at..].starts_with('\n'), "a string ends with its line");
                at += if rest[at..].starts_with('\\') { 2 } else { rest[at..].chars().next().unwrap().len_utf8() };
            }
            &rest[at + 1..]
        } else {
            kept.push(c);
            &rest[c.len_utf8()..]
        };
    }
    kept
}

#[test]
fn markdown_has_the_same_structure_whatever_texts_say() {
    let structure = |text: &str| -> Vec<String> {
        let events = Parser::new_ext(text, Options::ENABLE_TABLES);
        let kept = events.filter(|event| !matches!(event, Event::Text(_) | Event::SoftBreak));
        kept.map(|event| format!("{event:?}")).collect()
    };
    for target in [Target::C, Target::Python, Target::Torch] {
        for (hostile, harmless) in pairs(target, ".md") {
            assert_eq!(structure(&hostile), structure(&harmless), "{hostile}");
        }
    }
}
