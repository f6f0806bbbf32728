//! Turns a user's `.cu` file into a family, with an op and a workload around it.
//!
//! It reads text and returns text. [`Draft`] is what the source says, [`Wanted`] is what it cannot say, and [`texts`]
//! makes the files. Compiling and writing them is up to the caller.

mod aliases;
mod constant_memory;
mod geometry;
mod header_numbers;
mod host;
mod imports;
mod kernel;
mod literal;
mod oracle;
mod scan;
mod source;
mod template;
mod texts;
mod tolerance;
mod tunable;
mod uses;
mod wanted;

pub use geometry::Geometry;
pub use host::HostCode;
pub use imports::{
    Definition, Imported, MachineCodeHead, Problem, ProblemTexts, Tuning, TuningSource, definition, machine_code,
    problem, script, t1, workloads,
};
pub use kernel::{Kernel, Kind, Parameter};
pub use oracle::{OracleKernel, OracleNotes, with_oracle};
pub use texts::{Texts, UNUSED, texts, without_gaps};
pub use tunable::{Place, Tunable};
pub use wanted::{CaseSizes, Wanted};

use aliases::Aliases;
use host::File;
use scan::Scan;

use crate::domain::expr::Expr;
use crate::domain::op::Dtype;
use crate::domain::text::names::did_you_mean;

/// The most headers of a source's own.
const MAX_HEADERS: usize = 64;

/// Finds the kernels of a source.
pub fn kernels(text: &str) -> Vec<Kernel> {
    let scan = Scan::of(text);
    kernel::find(&scan, &Aliases::of(text, &scan))
}

/// What a source says: its kernel and what can be made tunable.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The text of the source, without what the kernel does not need, on the same lines.
    pub text: String,
    /// The kernel to launch.
    pub kernel: Kernel,
    /// What can be made tunable, in the order of the source.
    pub tunables: Vec<Tunable>,
    /// The source's own headers, by the path with which it includes them, without what the kernel does not need.
    pub headers: Vec<(String, String)>,
    /// What was left out.
    pub left_out: Vec<HostCode>,
    /// The constant memory that is a parameter of the kernel now, with its extents.
    pub moved: Vec<(String, Vec<String>)>,
    /// What keeps the source from being read, a sentence for each.
    problems: Vec<String>,
    /// The lines of the text before the user's own. All other numbers of lines begin after them.
    pub lines_before: usize,
    /// Whether blocks may have any size, because the kernel asks for it.
    pub asks_block_size: bool,
}

/// Which text to read, and how.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// The text of the source.
    pub text: &'a str,
    /// The lines of the text before the user's own.
    pub lines_before: usize,
    /// The kernel to launch, if the source has several.
    pub kernel: Option<&'a str>,
    /// The values of template parameters, and other types for names of types.
    pub templates: &'a [(String, String)],
    /// The types of the elements behind pointers, where the kernel declares others.
    pub dtypes: &'a [(String, Dtype)],
    /// The pointers to scratch memory.
    pub scratch: &'a [&'a str],
    /// The pointers that are inputs, whether they are const or not.
    pub inputs: &'a [&'a str],
    /// The pointers through which the kernel writes, even if it seems not to.
    pub written: &'a [&'a str],
    /// Names of the launch, which may be numbers of the source's own headers.
    pub named: &'a [&'a str],
    /// Tells whether a kernel may include a header of that name.
    pub is_header: fn(&str) -> bool,
    /// Returns the text of a header of the source's own, by its path from the source's folder.
    pub own_header: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Reading<'a> {
    /// Reads a text that has no headers of its own.
    pub fn of(text: &'a str) -> Self {
        Self {
            text,
            lines_before: 0,
            kernel: None,
            templates: &[],
            dtypes: &[],
            scratch: &[],
            inputs: &[],
            written: &[],
            named: &[],
            is_header: |_| true,
            own_header: &|_| None,
        }
    }
}

impl Draft {
    /// Reads a source. The error has a sentence for each mistake, if there is no kernel to say more about.
    pub fn read(reading: Reading<'_>) -> Result<Self, Vec<String>> {
        let Reading { lines_before, kernel: wanted, .. } = reading;
        let (text, mut problems) = template::instantiate(reading.text, wanted, reading.templates);
        let mut files = vec![File::new("", text)];
        own_headers(&mut files, reading);
        let (numbers, of_headers) = header_numbers::moved(&mut files, reading.named);
        let aliases = Aliases::of_all(&files);
        let name = chosen(&files[0].text, wanted, &aliases)?.name;
        let reached = host::reached(&files, &name);
        let macros = host::Macros::of(&files);
        let kernel = chosen(&files[0].text, Some(&name), &aliases)?;
        let moved = constant_memory::moved(&files, &kernel, &reached).unwrap_or_else(|found| {
            problems.extend(found);
            constant_memory::Moved { text: files[0].text.clone(), parameters: Vec::new(), gone: Vec::new() }
        });
        files[0] = File::new("", moved.text.clone());
        let (mut headers, mut left_out) = (Vec::new(), Vec::new());
        for file in &files {
            let is_own = |name: &str| files.iter().any(|other| other.path == name);
            let is_there = |name: &str, is_quoted: bool| {
                // CUB takes a second to compile.
                let is_used = !name.starts_with("cub/") || reached.contains("cub");
                (reading.is_header)(name) && is_used || is_quoted && (is_own(&beside(&file.path, name)) || is_own(name))
            };
            let gone: Vec<&str> = moved.gone.iter().map(String::as_str).collect();
            let (text, left) = host::without_host(file, &reached, (&macros, &gone), is_there);
            headers.push((file.path.clone(), text));
            left_out.extend(left);
        }
        let (_, text) = headers.remove(0);
        let implied = host::implied_includes(headers.iter().map(|(_, text)| text.as_str()).chain([text.as_str()]));
        let lines_before = lines_before + implied.len() + of_headers.len();
        let before: String = implied.iter().map(|header| format!("#include <{header}>\n")).collect();
        let text = format!("{before}{numbers}{text}");
        let mut chosen = chosen(&text, Some(&name), &aliases)?;
        if let Some(line) = source::host_code(&Scan::of(&text).plain) {
            let line = line.saturating_sub(lines_before);
            problems.push(format!(
                "line {line}: host code: remove `main` and launches with <<<...>>>, because optloop launches the kernel"
            ));
        }
        let text = without_words(&text, &mut chosen);
        chosen.line = chosen.line.saturating_sub(lines_before);
        problems.extend(chosen.set_dtypes(reading.dtypes).err().unwrap_or_default());
        problems.extend(chosen.set_scratch(reading.scratch).err().unwrap_or_default());
        set_only_read(&mut chosen, &text, &[reading.scratch, reading.written].concat());
        problems.extend(chosen.set_inputs(reading.inputs).err().unwrap_or_default());
        let mut tunables = tunable::find(&text, &source::without_comments(&text));
        let conditions = host::words_of_directives(&files);
        for tunable in &mut tunables {
            let is_used = |name: &str| reached.contains(name) || conditions.contains(name);
            tunable.is_used = tunable.place != Place::Define || is_used(&tunable.name);
            tunable.move_up(lines_before, &of_headers);
        }
        let asks_block_size = ["blockDim", "this_thread_block"].into_iter().any(|word| reached.contains(word));
        let moved = moved.parameters;
        Ok(Self { text, kernel: chosen, tunables, headers, left_out, moved, problems, lines_before, asks_block_size })
    }

    /// Returns what keeps the kernel from being launched, a sentence for each.
    pub fn mistakes(&self) -> Vec<String> {
        self.problems.iter().cloned().chain(self.kernel.mistakes()).collect()
    }

    /// Makes inputs of the pointers that the oracle takes. Where the kernel would have no output then, they are updated in
    /// place, as `wanted` says afterwards. Shapes and scalars of the oracle's file are for what has none.
    /// Shapes that are `given` stay.
    pub fn fit(&mut self, notes: &OracleNotes, given: &[&str], wanted: &mut Wanted) {
        let taken: Vec<&str> = notes.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let is_other =
            |name: &str| [&wanted.in_place, &wanted.zeroed].into_iter().any(|names| names.iter().any(|it| it == name));
        let outputs: Vec<&str> = self.outputs().map(|(name, _)| name).collect();
        let read: Vec<String> = outputs
            .iter()
            .filter(|name| taken.contains(name) && !is_other(name))
            .map(|name| (*name).to_owned())
            .collect();
        if read.len() < outputs.len() {
            let read: Vec<&str> = read.iter().map(String::as_str).collect();
            // They were found among the pointers.
            let _ = self.kernel.set_inputs(&read);
        } else {
            wanted.in_place.extend(read);
        }
        for parameter in &notes.parameters {
            let name = &parameter.name;
            let is_free = self.tensors().any(|tensor| tensor == name) && !given.contains(&name.as_str());
            if let Some(shape) = parameter.shape.as_ref().filter(|_| is_free) {
                wanted.shapes.insert(name.clone(), shape.clone());
            }
            if let Some(default) = parameter.default.filter(|_| self.scalars().any(|scalar| scalar == name)) {
                wanted.scalars.entry(name.clone()).or_insert(default);
            }
        }
        // Those in place come first, as the oracle returns them.
        let is_in_place = |name: &&String| wanted.in_place.contains(name);
        let outputs: Vec<String> = self.outputs().map(|(name, _)| name.to_owned()).collect();
        let ordered: Vec<String> = outputs
            .iter()
            .filter(is_in_place)
            .chain(outputs.iter().filter(|name| !is_in_place(name)))
            .cloned()
            .collect();
        for (name, shape) in ordered.into_iter().zip(&notes.outputs).filter(|(name, _)| !given.contains(&name.as_str()))
        {
            wanted.shapes.insert(name, shape.clone());
        }
    }

    /// Takes what the source itself says of shapes and sizes: the extents of constant memory, and the values of names that
    /// are dimensions.
    pub fn complete(&self, wanted: &mut Wanted) {
        for (name, extents) in self.moved.iter().filter(|(_, extents)| !extents.is_empty()) {
            if extents.iter().all(|extent| Expr::parse(extent).is_ok()) {
                wanted.shapes.entry(name.clone()).or_insert_with(|| extents.clone());
            }
        }
        let value =
            |name: &String| self.tunables.iter().find(|tunable| tunable.name == *name).map(|tunable| tunable.value);
        let names: Vec<String> = wanted
            .shapes
            .values()
            .flatten()
            .filter_map(|extent| Expr::parse(extent).ok())
            .flat_map(|expr| expr.names())
            .collect();
        let of_cases = wanted.cases.iter().flat_map(CaseSizes::keys).cloned();
        let names: Vec<String> = names.into_iter().chain(of_cases).collect();
        let known: Vec<(String, i64)> = names.iter().filter_map(|name| Some((name.clone(), value(name)?))).collect();
        let is_size =
            |name: &String| known.iter().any(|(known, _)| known == name) || self.sizes().any(|size| size == name);
        if wanted.cases.is_empty() && !known.is_empty() && self.sizes().count() == 0 && names.iter().all(is_size) {
            wanted.cases.push(CaseSizes::new());
        }
        for case in &mut wanted.cases {
            for (name, value) in &known {
                case.entry(name.clone()).or_insert(*value);
            }
        }
    }
}

/// Makes inputs of the pointers through which the kernel surely writes nothing, unless none would be left.
fn set_only_read(kernel: &mut Kernel, text: &str, written: &[&str]) {
    let scan = Scan::of(text);
    let Some(item) = scan.item_at(kernel.at) else { return };
    let body = &scan.plain[item.head_end..item.span.end];
    let open = kernel.parameters.iter().filter(|parameter| {
        matches!(parameter.kind, Some(Kind::Tensor { is_output: true, .. }))
            && !written.contains(&parameter.name.as_str())
    });
    let (read, others): (Vec<&str>, Vec<&str>) =
        open.map(|parameter| parameter.name.as_str()).partition(|name| uses::only_reads(body, name));
    if !others.is_empty() {
        let read: Vec<String> = read.into_iter().map(str::to_owned).collect();
        // They were found among the pointers.
        let _ = kernel.set_inputs(&read.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Finds the kernel to launch.
fn chosen(text: &str, wanted: Option<&str>, aliases: &Aliases) -> Result<Kernel, Vec<String>> {
    let kernels = kernel::find(&Scan::of(text), aliases);
    let names = || kernels.iter().map(|kernel| kernel.name.as_str());
    match (wanted, &kernels[..]) {
        (_, []) => Err(vec!["it has no `__global__` kernel".to_owned()]),
        (None, [only]) => Ok(only.clone()),
        (None, several) => {
            let all = several.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ");
            Err(vec![format!("it has the kernels {all}: choose one with --kernel")])
        }
        (Some(name), all) => match all.iter().find(|kernel| kernel.name == name) {
            Some(found) => Ok(found.clone()),
            None => Err(vec![format!("it has no kernel `{name}`{}", did_you_mean(name, names()))]),
        },
    }
}

/// Reads the source's own headers, and those that they include.
fn own_headers(files: &mut Vec<File>, reading: Reading<'_>) {
    let mut at = 0;
    while at < files.len() && files.len() < MAX_HEADERS {
        let from = files[at].path.clone();
        let scan = &files[at].scan;
        let directives = scan.directives.iter().filter(|directive| directive.name == "include");
        let directives = directives.filter(|directive| scan.is_active(directive.span.start));
        let included = directives.filter_map(|directive| host::included(&directive.rest));
        let names: Vec<String> =
            included.filter(|(_, is_quoted)| *is_quoted).map(|(name, _)| name.to_owned()).collect();
        for name in names {
            for path in [beside(&from, &name), name] {
                if files.iter().any(|file| file.path == path) {
                    break;
                }
                // A stranger's source must not bring the user's other files into the project.
                let leads_out =
                    path.starts_with('/') || path.contains('\\') || path.split('/').any(|part| part == "..");
                if let Some(text) = (!leads_out).then(|| (reading.own_header)(&path)).flatten() {
                    let header = File::header(&path, text, files);
                    files.push(header);
                    break;
                }
            }
        }
        at += 1;
    }
}

/// Returns the path of a file that another one includes from its own folder.
fn beside(path: &str, name: &str) -> String {
    path.rsplit_once('/').map_or_else(|| name.to_owned(), |(folder, _)| format!("{folder}/{name}"))
}

/// Takes the words `static` and `inline` from a kernel, whose name must be that of C.
fn without_words(text: &str, kernel: &mut Kernel) -> String {
    let (mut text, from) = (text.to_owned(), kernel.at);
    for word in ["static", "inline", "__forceinline__"] {
        let end = from + text[from..].find('(').unwrap_or_default();
        let places: Vec<usize> = source::words(&text[from..end], word).collect();
        for at in places.into_iter().rev() {
            let after = from + at + word.len();
            let blanks = text[after..].len() - text[after..].trim_start_matches(' ').len();
            text.replace_range(from + at..after + blanks, "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Error;

    fn read(text: &str) -> Result<Draft, Error> {
        let draft = Draft::read(Reading::of(text)).map_err(|mistakes| Error::of_all(&mistakes))?;
        if draft.mistakes().is_empty() { Ok(draft) } else { Err(Error::of_all(&draft.mistakes())) }
    }

    #[test]
    fn a_kernel_is_found_among_comments_strings_and_declarations() {
        let text = "// __global__ void no(float* y) {}\n/* __global__ void never(float* y) {} */\n\
                    __global__ void later(const float* x, float* y, int n);\n\
                    const char* s = \"__global__ void text(float* y) { \\\" \";\n\
                    extern \"C\" {\n__global__ __launch_bounds__((64 * 2), 1) void later(const float4* __restrict__ x,\n\
                    float* y, unsigned int n, const float scale) { y[0] = 1'000; }\n}";
        let kernel = read(text).unwrap().kernel;
        assert_eq!((kernel.name.as_str(), kernel.line, kernel.is_extern_c), ("later", 6, true));
        let kinds: Vec<_> = kernel.parameters.iter().map(|it| (it.name.as_str(), it.kind.unwrap())).collect();
        let tensor = |is_output| Kind::Tensor { dtype: Dtype::F32, is_output };
        assert_eq!(kinds, [("x", tensor(false)), ("y", tensor(true)), ("n", Kind::Size), ("scale", Kind::Scalar)]);
        assert!(!read("__global__ void k(float *y) { }").unwrap().kernel.is_extern_c);
    }

    #[test]
    fn numbers_that_could_differ_are_found_with_their_comments() {
        let text = "#define TILE 16   // rows of a tile.\n# define  STAGES (2)\n#define MACRO(x) 3\n#define SUM 1 + 2\n\
                    constexpr int K = 8; int other = 3;\nconst int P = 6, Q = 7;\nstatic const unsigned M = 4u;\nconstexpr float F = 2;\nint global = 5;\n\
                    // #define OLD 1\n__global__ void k(float* y) {\n    const int local = 2;\n    #pragma unroll 4\n    for (;;) {}\n#pragma unroll\n}";
        let Draft { text, tunables, .. } = read(text).unwrap();
        let shown: Vec<String> = tunables
            .iter()
            .map(|it| format!("{} {} {:?} {:?} {}", it.name, it.value, it.place, it.comment, &text[it.span.clone()]))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        TILE 16 Define Some("rows of a tile") 16
        STAGES 2 Define None 2
        K 8 Constant None 8
        P 6 Constant None 6
        Q 7 Constant None 7
        M 4 Constant None 4
        UNROLL_13 4 Unroll None 4
        "#);
    }

    proptest! {
        #[test]
        fn arbitrary_sources_never_panic(
            parts in proptest::collection::vec("[a-z<>(){}\\[\\];:=#*&,\"'\\\\ \n]{0,8}|\\PC{0,4}|#if |#endif\n|#define |template <|struct |__global__ void k|__constant__ |def oracle\\(|optloop = ", 0..24)
        ) {
            let text = parts.concat();
            let draft = Draft::read(Reading::of(&text));
            let _ = (draft.map(|draft| Geometry::of(&draft, &Wanted::default())), OracleNotes::read(&text, None));
            let _ = Draft::read(Reading::of(&format!("{text}\n__global__ void kernel(float* y) {{ y[0] = 1; }}\n")));
        }
    }

    #[test]
    fn what_the_host_needs_is_left_out_and_what_nvcc_knows_is_included() {
        let text = "#define BF16\n#if defined(HALF)\ntypedef half real;\n#elif defined(BF16)\ntypedef __nv_bfloat16 real;\n#else\n\
                    typedef float real;\n#endif\nsize_t space = 0;\nvoid* handle;\nconstexpr int N = 4;\n\
                    __global__ void k(const real* x, real* y, uint64_t n) { y[N] = x[0] < INFINITY ? x[n] : x[1]; }\n";
        let draft = read(text).unwrap();
        assert_eq!(draft.kernel.dtype(), Dtype::Bf16);
        let left: Vec<&str> = draft.left_out.iter().map(|left| left.what.as_str()).collect();
        assert_eq!(left, ["space", "handle"]);
        let first: Vec<&str> = draft.text.lines().take(5).collect();
        assert_eq!(
            first,
            ["math.h", "stdint.h", "cuda_fp16.h", "cuda_bf16.h"]
                .map(|it| format!("#include <{it}>"))
                .as_slice()
                .iter()
                .map(String::as_str)
                .chain(["#define BF16"])
                .collect::<Vec<_>>()
        );
        assert_eq!((draft.kernel.line, draft.tunables[0].line), (12, 11));
        assert_eq!(draft.kernel.parameters[2].wide_type(), Some("long long"));
    }

    /// None of this compiles, or it is not what it seems.
    #[test]
    fn what_a_kernel_does_not_use_is_left_out_whatever_it_is() {
        let text = "#ifdef OTHER_GPU\n#include \"musa.h\"\n#endif\n#include <cub/cub.cuh>\nusing at::Half;\n\
                    using handle = otherHandle_t;\nusing handle = cublasHandle_t;\ntypedef struct { ssize_t size; } File;\nstruct Unused { Half h; };\n\
                    typedef struct node { int n; } Node;\nenum Mode { ONE, TWO };\n\
                    template <typename T> __global__ void other(const T* x, T* y) { y[0] = x[0]; Half h; }\n\
                    template __global__ void other<float>(\n    const float* x, float* y);\n\
                    template <int N, typename T>\n__global__ void k(const float4* x, T* y) { Node n = {N + ONE}; y[0] = n.n; }\n\
                    template __global__ void k<4, float>(const float4* x, float* y);\n\
                    #define INSTANCE(T) template __global__ void other<T>(const T* x, T* y)\nINSTANCE(Mystery);\n";
        let templates = [("N", "4"), ("T", "float")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let dtypes = [("x".to_owned(), Dtype::F16)];
        let reading = Reading { kernel: Some("k"), templates: &templates, dtypes: &dtypes, ..Reading::of(text) };
        let draft = Draft::read(reading).unwrap();
        assert_eq!(draft.mistakes(), [""; 0]);
        let left: Vec<&str> = draft.left_out.iter().map(|left| left.what.as_str()).collect();
        assert_eq!(left, ["<cub/cub.cuh>", "Half", "handle", "File", "Unused", "other", "INSTANCE"]);
        assert!(draft.text.contains("Node") && draft.text.contains("enum Mode"), "{}", draft.text);
        let x = &draft.kernel.parameters[0];
        assert_eq!(x.kind, Some(Kind::Tensor { dtype: Dtype::F16, is_output: false }));
        let declared = &kernels(&draft.text)[0].parameters[0];
        assert!(declared.may_hold(Dtype::F16) && !declared.may_hold(Dtype::I32));
        let wrong = Reading { dtypes: &[("z".to_owned(), Dtype::F16)], ..reading };
        assert_eq!(Draft::read(wrong).unwrap().mistakes(), ["--dtype z: the kernel has no pointer of that name"]);
    }

    #[test]
    fn a_source_becomes_files_with_tags_where_its_numbers_were() {
        let text = "#define BX 32\n#define BY 4\n#define W 512\n#define MASK 4294967295\n\
                    __global__ void blur(const __half* in, __half* out, int rows) { out[W] = in[BX]; }\n";
        let draft = read(text).unwrap();
        let shape = || vec!["rows".to_owned(), "W".to_owned()];
        let wanted = Wanted {
            name: "blur".to_owned(),
            shapes: [("in".to_owned(), shape()), ("out".to_owned(), shape())].into(),
            cases: vec![[("rows".to_owned(), 64), ("W".to_owned(), 512)].into()],
            grid: Wanted::extents("ceil_div(W, BX), ceil_div(rows, BY)"),
            block: Wanted::extents("BX, BY"),
            flop: "0".to_owned(),
            values: [("BY".to_owned(), vec![2, 4])].into(),
            ..Wanted::default()
        };
        assert_eq!(wanted.missing(&draft), [""; 0]);
        let made = texts(&draft, &wanted, None).unwrap();
        insta::assert_snapshot!([made.op, made.workload, made.family, made.template].join("\n---\n"));
    }

    #[test]
    fn tensors_of_several_types_and_outputs_are_declared() {
        let text = "#include <cuda_fp8.h>\n#define T 64\n__global__ void pick(const __nv_fp8_e4m3* x, const int* at, \
                    const double* w, bool* found, unsigned* counts, float* y, int n) { y[T] = 1; found[0] = 1; ++counts[0]; }";
        let draft = read(text).unwrap();
        let shape = |tensor: &str| (tensor.to_owned(), vec!["n".to_owned(), "4".to_owned()]);
        let wanted = Wanted {
            name: "pick".to_owned(),
            shapes: ["x", "at", "w", "found", "counts", "y"].map(shape).into(),
            contents: [Wanted::contents("at=integers:0:n-1").unwrap(), Wanted::contents("x=uniform:-1:1").unwrap()]
                .into(),
            zeroed: vec!["counts".to_owned()],
            cases: vec![[("n".to_owned(), 64)].into()],
            grid: Wanted::extents("n"),
            block: Wanted::extents("T"),
            flop: "0".to_owned(),
            ..Wanted::default()
        };
        assert_eq!(wanted.missing(&draft), [""; 0]);
        let made = texts(&draft, &wanted, None).unwrap();
        insta::assert_snapshot!([made.op, made.workload, made.family, made.template].join("\n---\n"));
        assert_eq!(Wanted::contents("x=mask:1").unwrap().1, "{ mask = 1.0 }");
        insta::assert_snapshot!(Wanted::contents("x=uniform:0").unwrap_err(), @"`x=uniform:0`: write TENSOR=normal, uniform:0:1, integers:0:N-1, sorted:0:N or mask:0.5");
    }
}
