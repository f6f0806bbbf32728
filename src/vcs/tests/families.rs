//! Winners whose family comes with them.

use std::os::unix::fs::symlink;

use super::*;
use crate::catalog::Project;
use crate::domain::family::Family;
use crate::domain::op::{Dims, Dtype};
use crate::ops;
use crate::runner::render::render;

const MANIFEST: &str = "templates/kernels/found/family.toml";
const TEMPLATE: &str = "templates/kernels/found/kernel.cu.tera";

/// Makes a small family.
fn family() -> FamilyFiles {
    let manifest = r#"
name = "found"
about = "A family that a model wrote."
op = "gemm"
dtypes = ["f16"]
requires_sm = 80
constants = []
[params.THREADS]
values = [32, 64]
default = 32
about = "threads"
expect = [1.0, 1.1]
[[launch]]
kernel = "multiply"
grid = ["M"]
block = ["THREADS"]
args = ["a", "b", "c", "N", "K"]
"#;
    FamilyFiles { name: "found".to_owned(), manifest: manifest.to_owned(), template: "// <$ THREADS $>\n".to_owned() }
}

/// Makes a winner of a family.
pub(super) fn with_family(source: &str) -> Winner {
    Winner { family: Some(family()), ..winner(source) }
}

/// Returns the changes of the latest commit, one `<status> <path>` for each file.
fn changed(sandbox: &Sandbox) -> String {
    sandbox.git("show --name-status --no-renames --format=").replace('\t', " ")
}

#[test]
fn a_new_family_is_part_of_the_commit_and_comes_once() {
    let sandbox = Sandbox::new();
    sandbox.write("staged.txt", "two\n");
    sandbox.git("add staged.txt");
    sandbox.write("edited.txt", "two\n");
    sandbox.write("templates/kernels/mine/family.toml", "not committed\n");
    let status = || sandbox.git("status --porcelain --untracked-files=all");
    let before = status();
    sandbox.repo().commit_winner(&with_family("// fast\n")).unwrap();
    assert_eq!(status(), before);
    assert_eq!(changed(&sandbox), format!("A {JSON}\nA {CU}\nA {MANIFEST}\nA {TEMPLATE}\n"));
    assert_eq!((sandbox.read(MANIFEST), sandbox.read(TEMPLATE)), (family().manifest, family().template));
    let message = sandbox.git("log -1 --format=%B");
    insta::assert_snapshot!(message.lines().nth(2).unwrap(), @"Family:     fa2-mma, new: committed with its family, which a language model wrote");

    sandbox.repo().commit_winner(&with_family("// faster\n")).unwrap();
    assert_eq!(changed(&sandbox), format!("M {CU}\n"));
    assert_eq!(sandbox.git("log -1 --format=%B").lines().nth(2), Some("Family:     fa2-mma"));

    // A user who has changed the files of a committed family keeps the changes.
    sandbox.write(TEMPLATE, "// mine\n");
    sandbox.repo().commit_winner(&with_family("// fastest\n")).unwrap();
    assert_eq!((changed(&sandbox), sandbox.read(TEMPLATE)), (format!("M {CU}\n"), "// mine\n".to_owned()));
}

#[test]
fn another_folder_of_that_name_is_never_touched() {
    let sandbox = Sandbox::new();
    let refused = || sandbox.refused(&with_family("// fast\n"));
    let reset = || {
        sandbox.git("reset --quiet --hard");
        sandbox.git("clean --quiet --force -d");
    };
    sandbox.write("templates/kernels/found/notes.txt", "mine\n");
    insta::assert_snapshot!(refused(), @"`templates/kernels/found` holds files that are not committed: rename the folder or move it away, because the winner's family has that name");
    reset();
    sandbox.write(TEMPLATE, "// mine\n");
    insta::assert_snapshot!(refused(), @"`templates/kernels/found/kernel.cu.tera` is there but not committed: commit it or restore it, because the winner would replace it");
    sandbox.git("add templates");
    fs::remove_dir_all(sandbox.path("templates")).unwrap();
    insta::assert_snapshot!(refused(), @"`templates/kernels/found/kernel.cu.tera` has staged changes: commit it or restore it, because the winner would replace it");
    reset();
    sandbox.write("templates/kernels/found/include/tile.h", "mine\n");
    sandbox.git("add templates");
    fs::remove_dir_all(sandbox.path("templates")).unwrap();
    insta::assert_snapshot!(refused(), @"`templates/kernels/found` holds staged files: rename the folder or move it away, because the winner's family has that name");
    sandbox.git("commit --quiet -m mine");
    reset();
    insta::assert_snapshot!(refused(), @"`templates/kernels/found` holds another family: rename the folder or move it away, because the winner's family has that name");
    sandbox.git("rm --quiet -r templates");
    sandbox.git("commit --quiet -m removed");

    let outside = TempDir::new().unwrap();
    fs::create_dir_all(sandbox.path("templates/kernels")).unwrap();
    symlink(outside.path(), sandbox.path("templates/kernels/found")).unwrap();
    insta::assert_snapshot!(refused(), @"`templates/kernels/found` is a symbolic link: move it away, because winners are stored below it");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_family_that_the_project_could_not_read_is_not_committed() {
    let sandbox = Sandbox::new();
    let refused = |change: &dyn Fn(&mut FamilyFiles)| {
        let mut family = family();
        change(&mut family);
        sandbox.refused(&Winner { family: Some(family), ..winner("// fast\n") })
    };
    insta::assert_snapshot!(refused(&|family| family.name = "../up".to_owned()), @"the family `../up` of the winner cannot be committed: its manifest has the name `found`");
    insta::assert_snapshot!(refused(&|family| family.manifest = family.manifest.replace("\"found\"", "\"common\"")), @"the family `found` of the winner cannot be committed: name `common`: shared fragments have that folder, so give the family another");
    insta::assert_snapshot!(refused(&|family| family.manifest = family.manifest.replace("default = 32", "default = 3")), @"the family `found` of the winner cannot be committed: parameter `THREADS`: its default 3 is not among its values");
    insta::assert_snapshot!(refused(&|family| family.manifest = family.manifest.replace("constants = []", "constants = []\nheaders = [\"include\"]")), @"the family `found` of the winner cannot be committed: its manifest declares `headers`, which are not among its files: remove the key");
    insta::assert_snapshot!(refused(&|family| family.template += "<%- include \"common/mbarrier.cu.tera\" %>"), @"the family `found` of the winner cannot be committed: its template includes another file: put the text of the file in its place");
    insta::assert_snapshot!(refused(&|family| family.template += "\0"), @"the family `found` of the winner cannot be committed: its template has a NUL byte: remove it");
    insta::assert_snapshot!(refused(&|family| family.template += &" ".repeat(1 << 20)), @"the family `found` of the winner cannot be committed: a file has more than 1 MiB, the limit for a file of a project");
}

#[test]
fn a_failure_at_the_last_step_leaves_no_family() {
    let sandbox = Sandbox::new();
    // A folder takes the place of the branch's log.
    fs::remove_file(sandbox.path(".git/logs/refs/heads/main")).unwrap();
    sandbox.write(".git/logs/refs/heads/main/in/the/way", "");
    sandbox.refused(&with_family("// fast\n"));
    assert!(!sandbox.path("templates").exists() && !sandbox.path("kernels").exists());
}

/// A later session renders the committed winner from its committed family.
#[test]
fn a_committed_family_renders_to_the_same_sources() {
    let shipped =
        Project::find(Some(std::path::Path::new(env!("CARGO_MANIFEST_DIR")))).unwrap().families().unwrap().sound;
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "");
    let dims: Dims = [("D", 64), ("CAUSAL", 1), ("Sq", 128), ("Sk", 128)]
        .map(|(name, size)| (name.to_owned(), size))
        .into_iter()
        .collect();
    let source = |family: &Family| {
        // Those that the case does not give are 0.
        let constants =
            family.constants.iter().map(|name| (name.clone(), dims.get(name).copied().unwrap_or(0))).collect();
        render(family, &constants, family.dtypes[0], &family.defaults()).unwrap()
    };
    let generated: Vec<Family> = shipped
        .into_iter()
        .map(|family| {
            let renamed = format!("name = \"found-{}\"", family.name);
            let manifest = family.manifest.replacen(&format!("name = \"{}\"", family.name), &renamed, 1);
            Family::parse_with_op(&manifest, family.template, ops::find).unwrap()
        })
        .collect();
    assert!(generated.iter().any(|family| family.template.contains("<% endfor %>") && family.dtypes == [Dtype::F16]));
    for family in &generated {
        let winner = Winner { family: Some(FamilyFiles::of(family)), ..winner(&source(family).source) };
        sandbox.repo().commit_winner(&winner).unwrap();
    }
    assert_eq!(sandbox.git("status --porcelain"), "?? config.toml\n");
    let read = Project::find(Some(sandbox.root.path())).unwrap().families().unwrap().sound;
    assert_eq!(read.len(), generated.len());
    for (read, family) in read.iter().zip(&generated) {
        assert_eq!(
            (&read.name, &read.template, &read.content_hash),
            (&family.name, &family.template, &family.content_hash)
        );
        assert_eq!(source(read).hash, source(family).hash);
    }
}
