//! Turns a user's `.cu` file into a family, with an op and a workload around it.
//!
//! It reads text and returns text. [`Draft`] is what the source says, [`Wanted`] is what it cannot say, and [`texts`]
//! makes the files. Compiling and writing them is up to the caller.

mod imports;
mod kernel;
mod oracle;
mod source;
mod template;
mod texts;
mod tolerance;
mod tunable;
mod wanted;

pub use imports::{Definition, Imported, Tuning, TuningSource, definition, script, t1, workloads};
pub use kernel::{Kernel, Kind, Parameter};
pub use oracle::OracleKernel;
pub use template::instantiate;
pub use texts::{Texts, texts};
pub use tunable::{Place, Tunable};
pub use wanted::{CaseSizes, Wanted};

use crate::domain::names::did_you_mean;

/// Finds the kernels of a source.
pub fn kernels(text: &str) -> Vec<Kernel> {
    kernel::find(&source::without_comments(text))
}

/// What a source says: its kernel and what can be made tunable.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The text of the source.
    pub text: String,
    /// The kernel to launch.
    pub kernel: Kernel,
    /// What can be made tunable, in the order of the source.
    pub tunables: Vec<Tunable>,
    /// Files that the source includes by a path of the user's own, with the line of each.
    pub includes: Vec<(String, usize)>,
    /// The lines of the text before the user's own. All other numbers of lines begin after them.
    pub lines_before: usize,
}

/// Which text to read, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading<'a> {
    /// The text of the source.
    pub text: &'a str,
    /// The lines of the text before the user's own.
    pub lines_before: usize,
    /// The kernel to launch, if the source has several.
    pub kernel: Option<&'a str>,
    /// The pointers to scratch memory.
    pub scratch: &'a [&'a str],
    /// The pointers that are inputs, whether they are const or not.
    pub inputs: &'a [&'a str],
}

impl Draft {
    /// Reads a source. The error has a sentence for each mistake.
    pub fn read(reading: Reading<'_>) -> Result<Self, Vec<String>> {
        let Reading { text, lines_before, kernel: wanted, scratch, inputs } = reading;
        let code = source::without_comments(text);
        if let Some(line) = source::host_code(&code) {
            let line = line.saturating_sub(lines_before);
            return Err(vec![format!(
                "line {line}: host code: remove `main` and launches with <<<...>>>, because optloop launches the kernel"
            )]);
        }
        let kernels = kernel::find(&code);
        let names = || kernels.iter().map(|kernel| kernel.name.as_str());
        let chosen = match (wanted, &kernels[..]) {
            (_, []) => return Err(vec!["it has no `__global__` kernel".to_owned()]),
            (None, [only]) => only,
            (None, several) => {
                let all = several.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(vec![format!("it has the kernels {all}: choose one with --kernel")]);
            }
            (Some(name), all) => match all.iter().find(|kernel| kernel.name == name) {
                Some(found) => found,
                None => return Err(vec![format!("it has no kernel `{name}`{}", did_you_mean(name, names()))]),
            },
        };
        let mut chosen = chosen.clone();
        chosen.line = chosen.line.saturating_sub(lines_before);
        chosen.set_scratch(scratch)?;
        chosen.set_inputs(inputs)?;
        let mistakes = chosen.mistakes();
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut tunables = tunable::find(text, &code);
        tunables.iter_mut().for_each(|tunable| tunable.move_up(lines_before));
        let mut includes = source::own_includes(text);
        includes.iter_mut().for_each(|(_, line)| *line = line.saturating_sub(lines_before));
        Ok(Self { text: text.to_owned(), kernel: chosen, tunables, includes, lines_before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::Dtype;

    fn read(text: &str) -> Result<Draft, String> {
        Draft::read(Reading { text, ..Reading::default() }).map_err(|mistakes| mistakes.join("; "))
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
                    constexpr int K = 8; int other = 3;\nstatic const unsigned M = 4u;\nconstexpr float F = 2;\nint global = 5;\n\
                    // #define OLD 1\n__global__ void k(float* y) {\n    #pragma unroll 4\n    for (;;) {}\n#pragma unroll\n}";
        let found = read(text).unwrap().tunables;
        let shown: Vec<String> = found
            .iter()
            .map(|it| format!("{} {} {:?} {:?} {}", it.name, it.value, it.place, it.comment, &text[it.span.clone()]))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        TILE 16 Define Some("rows of a tile") 16
        STAGES 2 Define None 2
        K 8 Constant None 8
        M 4 Constant None 4
        UNROLL_11 4 Unroll None 4
        "#);
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
                    const double* w, bool* found, unsigned* counts, float* y, int n) { y[T] = 1; }";
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
