//! Launches the kernels of tests/kernels. Each takes the addresses of an input and an output of 128 words.

use virtual_gpu::counters::Counters;
use virtual_gpu::fault::{Fault, FaultKind, LaunchError};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Loaded, Options, VirtualGpu, ptx};

/// Bytes of the input and of the output.
pub const BYTES: u64 = 512;

/// A file of kernels on a GPU, with an initialised input and an unwritten output.
pub struct Bench {
    pub gpu: VirtualGpu,
    pub input: u64,
    pub output: u64,
    pub options: Options,
    loaded: Loaded,
    text: String,
    file: String,
}

impl Bench {
    /// Loads a file.
    pub fn new(file: &str) -> Self {
        let path = format!("{}/tests/kernels/{file}.ptx", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("the file is there");
        let mut gpu = VirtualGpu::new(Gpu::h200());
        let module = ptx::load(file, &text).unwrap_or_else(|error| panic!("{error}"));
        let loaded = gpu.load(module).expect("its variables fit");
        let input = gpu.alloc(BYTES).expect("there is memory");
        let output = gpu.alloc(BYTES).expect("there is memory");
        gpu.fill(input, BYTES, 0).expect("the allocation is that large");
        Self { gpu, input, output, options: Options::default(), loaded, text, file: file.to_owned() }
    }

    /// Launches one block with this many threads.
    pub fn launch(&self, kernel: &str, threads: u32) -> Result<Counters, LaunchError> {
        self.launch_shape(kernel, [1; 3], [threads, 1, 1], [1; 3], 0)
    }

    /// Launches any shape.
    pub fn launch_shape(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        cluster: [u32; 3],
        dynamic_shared_bytes: u32,
    ) -> Result<Counters, LaunchError> {
        let args = [self.input.to_le_bytes().to_vec(), self.output.to_le_bytes().to_vec()];
        let launch = Launch { grid, block, cluster, dynamic_shared_bytes, args: &args };
        self.gpu.launch(&self.loaded, kernel, &launch, &self.options)
    }

    /// Launches a kernel with a planted fault. Returns the fault after checking that it names this kernel and one of
    /// its marked lines.
    pub fn fault(&self, kernel: &str, threads: u32) -> Fault {
        let fault = match self.launch(kernel, threads) {
            Err(LaunchError::Fault(fault)) => *fault,
            other => panic!("{kernel} of {} was to fault, got {other:?}", self.file),
        };
        assert_eq!(fault.kernel, kernel);
        assert_eq!(fault.file, self.file);
        assert_eq!(fault.block, [0, 0, 0]);
        let marked = self.marked_lines(kernel);
        assert!(marked.contains(&fault.line), "{fault}: marked are the lines {marked:?}");
        let line = self.text.lines().nth(fault.line as usize - 1).unwrap_or_default();
        assert!(
            line.contains(fault.instruction.trim_end_matches(';')),
            "the message quotes `{}`, the line is `{line}`",
            fault.instruction
        );
        fault
    }

    /// Asserts a planted fault's thread and kind.
    pub fn expect(&self, kernel: &str, threads: u32, thread: u32, kind: FaultKind) {
        let fault = self.fault(kernel, threads);
        assert_eq!((fault.thread, &fault.kind), ([thread, 0, 0], &kind), "{fault}");
    }

    /// Asserts that a kernel causes no fault.
    pub fn clean(&self, kernel: &str, threads: u32) {
        if let Err(error) = self.launch(kernel, threads) {
            panic!("{kernel} of {} is clean, got {error}", self.file);
        }
    }

    /// Returns the lines of a kernel that carry the word `planted`, from 1.
    fn marked_lines(&self, kernel: &str) -> Vec<u32> {
        let start = format!(".entry {kernel}(");
        let lines = (1..).zip(self.text.lines()).skip_while(|(_, line)| !line.contains(&start));
        lines
            .take_while(|(_, line)| *line != "}")
            .filter(|(_, line)| line.contains("// planted"))
            .map(|(number, _)| number)
            .collect()
    }
}

/// Returns the same bounds fault without its detail, which is meant for people.
pub fn without_detail(fault: &Fault) -> FaultKind {
    match fault.kind.clone() {
        FaultKind::OutOfBounds { access, space, address, bytes, detail } => {
            assert!(!detail.is_empty());
            FaultKind::OutOfBounds { access, space, address, bytes, detail: String::new() }
        }
        other => other,
    }
}
