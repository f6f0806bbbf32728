//! `optloop docs`: prints the pages of the folder docs, which a program without its repository would lack.

use std::io::Write;

use crate::cli::terminal::screen::Screen;
use crate::domain::text::names::did_you_mean;
use crate::error::usage_sentence;

macro_rules! pages {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../../../docs/", $name, ".md")))),*] };
}

/// The pages, by name. A test compares them with the folder.
const PAGES: [(&str, &str); 32] = pages! {
    "ablations" "agents" "audit" "baselines" "bench" "board" "correctness" "counters" "diagnosis" "events" "export" "family" "fleet" "fragments"
    "git" "history" "hostile-input" "import" "kernels" "launch-plan" "model" "models" "reading-a-report" "reference"
    "report-schema" "schema" "security" "service" "simulate" "tutorial" "usage" "workload"
};

/// Arguments of `optloop docs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Page to print, such as workload or git [default: list the pages]
    topic: Option<String>,
}

/// Prints a page, or lists all.
pub fn run(args: &Args, screen: Screen, out: &mut impl Write) -> anyhow::Result<()> {
    let Some(topic) = &args.topic else {
        let line = |(name, text): &(&str, &str)| format!("{name:<18}{}\n", title(text));
        return Ok(write!(out, "{}", PAGES.iter().map(line).collect::<String>())?);
    };
    // As messages and pages name it.
    let wanted = topic.trim_start_matches("docs/").trim_end_matches(".md");
    match PAGES.iter().find(|(name, _)| *name == wanted) {
        Some((_, text)) => Ok(screen.show(text.as_bytes(), out)?),
        None => {
            let hint = did_you_mean(wanted, PAGES.iter().map(|(name, _)| *name));
            Err(usage_sentence(format!("there is no page `{topic}`{hint}: `optloop docs` lists them")))
        }
    }
}

/// Returns the first heading of a page.
fn title(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_the_folder_is_printed() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let pages = paths.filter(|path| path.extension().is_some_and(|end| end == "md"));
        let mut names: Vec<String> =
            pages.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        assert_eq!(names, PAGES.map(|(name, _)| name));
        let printed = |topic: Option<&str>| {
            let mut out = Vec::new();
            run(&Args { topic: topic.map(str::to_owned) }, Screen::plain(), &mut out)
                .map(|()| String::from_utf8(out).unwrap())
        };
        assert!(printed(Some("docs/git.md")).unwrap().contains("git merge optloop/winners"));
        assert!(printed(None).unwrap().contains("git               What a session does to your repository\n"));
        assert!(printed(Some("gitt")).unwrap_err().to_string().contains("(did you mean `git`?)"));
    }
}
