//! Every relative link in the repository's Markdown leads to an existing file or folder, with the same case.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Folders that do not belong to the repository.
const NOT_OURS: [&str; 4] = [".git", ".gpu", ".optloop", "target"];

/// Collects the files and folders below `folder`, relative to the repository and separated by `/`. Names come from
/// listings, not from the link, so case matters on every file system.
fn collect(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if entry.file_type().unwrap().is_dir() {
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            collect(&entry.path(), &format!("{path}/"), found);
        }
        found.insert(path);
    }
}

/// Lists the targets of the links in a Markdown text, `[text](target)` and `[name]: target`, with their lines. Code
/// contains no links.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        if in_fence {
            continue;
        }
        // Every second piece between backticks is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let inline = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        let defined = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
        for target in inline.chain(defined) {
            // A title may follow.
            links.extend(target.split_whitespace().next().map(|target| (index + 1, target.to_owned())));
        }
    }
    links
}

/// Returns the path of a link in `file`, or `None` if it leaves the repository.
fn resolve(file: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lists the dead relative links of a Markdown file as `file:line: target`.
fn dead(file: &str, text: &str, found: &BTreeSet<String>) -> Vec<String> {
    let is_dead = |target: &str| {
        let path = target.split('#').next().unwrap_or_default();
        let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
        // A link to a heading of the same file has no path and leads to the file's folder here; the root has no name.
        let is_there = |path: String| path.is_empty() || found.contains(&path);
        !is_elsewhere && !resolve(file, path).is_some_and(is_there)
    };
    let links = links(text).into_iter().filter(|(_, target)| is_dead(target));
    links.map(|(line, target)| format!("{file}:{line}: {target}")).collect()
}

#[test]
fn every_relative_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    collect(root, "", &mut found);
    let files: Vec<&String> = found.iter().filter(|path| path.ends_with(".md")).collect();
    assert!(files.iter().any(|file| *file == "README.md"), "{files:?}");
    let text = |file: &String| fs::read_to_string(root.join(file)).unwrap();
    let dead: Vec<String> = files.into_iter().flat_map(|file| dead(file, &text(file), &found)).collect();
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

#[test]
fn a_dead_link_is_found() {
    let found = ["a.md", "docs", "docs/b.md", "docs/c.csv"].map(str::to_owned).into();
    let text = "[b](b.md) [a](../a.md#top) [here](#below) [web](https://a.example/b.md) [up](..) [folder](../docs/)\n\
                `[code](no.md)` and [case](B.md)\n```\n[code](no.md)\n```\n![image](c.png \"A title\"), [out](../../a.md)\n\n\
                [c]: c.csv\n[d]: d.csv\n";
    assert_eq!(
        dead("docs/b.md", text, &found),
        ["docs/b.md:2: B.md", "docs/b.md:6: c.png", "docs/b.md:6: ../../a.md", "docs/b.md:9: d.csv"]
    );
}
