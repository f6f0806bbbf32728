use std::path::Path;

use super::*;
use crate::catalog::Project;
use crate::domain::op::Dtype;
use crate::runner::render::render;

fn said(source: &str) -> String {
    check_source(source).unwrap_err().to_string()
}

#[test]
fn honest_sources_pass() {
    let sources = [
        "#include <cuda_fp16.h>\n#include \"mma.h\" // tensor cores\n  #  include <cooperative_groups/memcpy_async.h>\n",
        "#include <cuda/std/cstdint>\n#include <cuda/barrier>\n#pragma unroll\n#line 12 \"kernel.cu.tera\"\n#\n",
        "%:include <cstdint>\nint a = 7 % 3;\nint b = 1'000'000; float c = 0x1p-3f, d = 1e-5f, e = .5f;\nchar q = '\\'';",
        "const char* s = \"#include </etc/passwd> /* \"; // #include <fstream>\n/* #include <fstream> */ int x = a / b;\n",
        "asm volatile(R\"ptx(\n{ .reg .u32 r; // #include\n}\n)ptx\" : : );\n#if defined(X) && X > 1\n#elif 1\n#else\n#endif\n",
        "#define TWO(a) \\\n  do { a; } while (0)\n#undef TWO\nint FOOR = 1; const char* t = FOOR\"x\";\n",
        "int imports = 1; importer(imports);\r\nint y;\r\n",
    ];
    for source in sources {
        assert_eq!(check_source(source), Ok(()), "{source}");
    }
}

#[test]
fn a_refusal_reads_as_a_compilers_error() {
    insta::assert_snapshot!(said("int x;\n#include </etc/passwd>\n"), @"variant.cu(2): error: source rules: `/etc/passwd` is not one of the headers that a kernel may include: assert.h, cassert, cfloat, climits, cmath, cooperative_groups.h, cstddef, cstdint, cuComplex.h, cub/cub.cuh, cuda.h, cuda_awbarrier.h, cuda_awbarrier_primitives.h, cuda_bf16.h, cuda_fp16.h, cuda_fp4.h, cuda_fp6.h, cuda_fp8.h, cuda_pipeline.h, cuda_pipeline_primitives.h, cuda_runtime.h, device_launch_parameters.h, float.h, initializer_list, limits, limits.h, math.h, math_constants.h, mma.h, stddef.h, stdint.h, sys/types.h, type_traits, utility, vector_types.h, and those in cooperative_groups/, cub/block/, cub/thread/, cub/warp/, cuda/");
    insta::assert_snapshot!(said("#define H <fstream>\n#include H\n"), @"variant.cu(2): error: source rules: `#include H`, which does not name a header directly, is not allowed in a kernel");
    insta::assert_snapshot!(said("#embed \"/etc/passwd\"\n"), @"variant.cu(1): error: source rules: `#embed` is not allowed in a kernel");
    insta::assert_snapshot!(said("#if 1 && __has_include(</etc/passwd>)\n"), @"variant.cu(1): error: source rules: `__has_include` is not allowed in a kernel");
    insta::assert_snapshot!(said("// ??/\n"), @"variant.cu(1): error: source rules: the trigraph `??/` is not allowed in a kernel");
    insta::assert_snapshot!(said("int x;\rint y;"), @"variant.cu(1): error: source rules: the control character U+000D is not allowed in a kernel");
}

#[test]
fn no_way_to_write_an_include_gets_past() {
    let hidden = [
        "#include \"../../secret.h\"",
        "#include <cuda/../../../../etc/passwd>",
        "#include <cuda//etc/passwd>",
        "#include <cuda/.hidden>",
        "#include <cuda/std/../x>",
        "#include <cuda_fp16.h> \"x\"",
        "#include <fstream",
        "#include_next <cuda_fp16.h>",
        "#import <cuda_fp16.h>",
        "import <cuda_fp16.h>;",
        "/* a */ # /* b */ include /* c */ <fstream>",
        "/* a\n b */ #include <fstream>",
        "int x; /* a\n b */ #include <fstream>",
        "%:include <fstream>",
        "%\\\n:include <fstream>",
        "#inc\\\nlude <fstream>",
        "\\\n#include <fstream>",
        "#in\\ \nclude <fstream>",
        "// comment \\ \n#include <fstream>",
        "/\\\n* not a way to hide it *\\\n/\n#include <fstream>",
        "const char* s = \"\\\\\";\n#include <fstream>",
        "const char* s = R\"(\\)\";\n#include <fstream>",
        "const char* s = R\"x()\"\n)x\";\n#include <fstream>",
        "int FOOR = 1; f(FOOR\"(\");\n#include <fstream>\n//)\"",
        "char c = '\"';\n#include <fstream>\nchar d = '\"';",
        "int n = 1'0/*'*/;\n#include <fstream>\n/*'*/",
        "#if 0\n#include <fstream>\n#endif",
        "\u{feff}#include <fstream>",
        "#pragma once\n\u{c}#include <fstream>",
        "#line 1 \"x\"\n#include <fstream>",
        "const char* s = \"open\n#include <fstream>",
        "/* open\n#include <fstream>",
        "R\"(open\n#include <fstream>",
    ];
    for source in hidden {
        assert!(check_source(source).is_err(), "{source}");
    }
}

#[test]
fn clock_registers_are_found_in_ptx_and_others_are_not() {
    insta::assert_snapshot!(check_ptx("\tmov.u64 %rd1, %clock64;\n").unwrap_err(), @"error: it reads the clock %clock64, which kernels must not do");
    assert!(check_ptx("mov.u64 %rd1, %globaltimer;").is_err());
    assert!(check_ptx("mov.u32 %r1, %clock_hi;").is_err());
    assert_eq!(check_ptx("mov.u32 %r1, %clockwise; mov.u32 %r2, %tid.x; // 100%"), Ok(()));
}

/// Returns every file below a folder whose name ends with `end`.
fn files(folder: &Path, end: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| if path.is_dir() { files(&path, end) } else { vec![path] });
    found.filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

#[test]
fn every_kernel_of_the_repository_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = files(&root.join("kernels"), ".cu");
    assert!(committed.len() > 20, "{committed:?}");
    for path in committed {
        assert_eq!(check_source(&std::fs::read_to_string(&path).unwrap()), Ok(()), "{}", path.display());
    }
    let families = Project::find(Some(root)).unwrap().families().unwrap().sound;
    assert!(families.len() >= 4, "{families:?}");
    for family in families {
        let specialization = family.constants.iter().map(|name| (name.clone(), 64)).collect();
        let rendered = render(&family, &specialization, Dtype::F16, &family.defaults()).unwrap();
        assert_eq!(check_source(&rendered.source), Ok(()), "{}", family.name);
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_judged_without_a_panic(source in "[#%:<>\"'/*\\\\R()a-z0-9 ?=\\n\\t]{0,60}") {
        let _ = check_source(&source);
        let _ = check_ptx(&source);
    }

    /// An include is found despite any comments, spaces and joined lines in between.
    #[test]
    fn an_include_is_seen_through_anything_in_between(between in proptest::collection::vec(0..5_usize, 4)) {
        let filler = |at: usize| ["", " ", "\t", "/**/", "\\\n"][between[at]];
        let source = format!("{}#{}include{}<fstream>{}\n", filler(0), filler(1), filler(2), filler(3));
        proptest::prop_assert!(check_source(&source).is_err(), "{source}");
    }
}
