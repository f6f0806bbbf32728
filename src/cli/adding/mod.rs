//! What `add` and `import` share: a workload, a family and an op of a kernel of one's own.

pub mod kernel_options;
pub mod machine_code;
pub mod new_kernel;
pub mod own_headers;
pub mod problem_files;
pub mod staging;
pub mod tunable_trials;
