//! docs/reference.md: every verb with its arguments, and every key of config.toml. The page is made from the command line
//! and from config.toml, so a test can keep it true.

use clap::{Arg, Command, Parser};

use crate::cli::verbs::manual::visible;
use crate::shipped;

const PAGE: &str = "docs/reference.md";

/// Rewrites the page with `UPDATE=1 cargo test --lib reference`.
#[test]
fn the_page_has_every_verb_and_every_key() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "{PAGE} is not what the program says: run `UPDATE=1 cargo test --lib reference`");
}

/// An example that optloop would refuse is worse than none.
#[test]
fn every_verb_has_examples_that_it_accepts() {
    for verb in visible().get_subcommands() {
        let examples =
            verb.get_after_help().unwrap_or_else(|| panic!("{} has no examples", verb.get_name())).to_string();
        let lines = examples.lines().filter_map(|line| line.strip_prefix("  optloop "));
        assert!(lines.clone().count() > 0, "{}", verb.get_name());
        for line in lines {
            // What follows two spaces explains the example.
            let command = line.split("  ").next().unwrap().split(['>', '|', '&']).next().unwrap();
            let words = std::iter::once("optloop").chain(command.split_whitespace());
            let parsed = super::Arguments::try_parse_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}

/// Splits a command into words, as a shell does for words in single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in command.split('\'').enumerate() {
        let is_quoted = at % 2 == 1;
        for c in part.chars() {
            match words.last_mut() {
                Some(last) if is_quoted || !c.is_whitespace() => last.push(c),
                _ => words.push(String::new()),
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// So is a command in the documentation.
#[test]
fn every_command_of_the_pages_is_accepted() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    pages.extend(std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let mut refused = Vec::new();
    let mut accepted = 0;
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        for command in commands(&std::fs::read_to_string(page).unwrap()) {
            match super::Arguments::try_parse_from(words(&command)) {
                Ok(_) => accepted += 1,
                Err(error) => refused.push(format!("{}: `{command}`: {error}", page.display())),
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(accepted > 80, "only {accepted} commands were found");
}

/// Finds the commands in a page, in code spans and in blocks. A name in capitals stands for a number, and what is in
/// brackets is left out.
fn commands(page: &str) -> Vec<String> {
    let spans = page.split('`').skip(1).step_by(2).filter(|span| !span.contains('\n'));
    let lines = page.lines().map(|line| line.trim_start_matches("$ ")).filter(|line| !line.contains('`'));
    let starts = ["optloop ", "cargo run --release -- "];
    let found = spans.chain(lines).filter_map(|text| starts.iter().find_map(|start| text.strip_prefix(start)));
    found
        .filter(|arguments| is_command(arguments))
        .map(|arguments| format!("optloop {}", concrete(arguments)))
        .collect()
}

/// Whether a text that began with the program's name goes on like a command rather than a sentence, or names a verb.
fn is_command(arguments: &str) -> bool {
    let mut verbs = visible();
    let mut words = arguments.split_whitespace().peekable();
    while let Some(verb) = words.peek().and_then(|word| verbs.find_subcommand(word)).cloned() {
        (verbs, _) = (verb, words.next());
    }
    verbs.get_name() != "optloop" && words.peek().is_some() && !arguments.trim_end().ends_with('.')
}

fn concrete(arguments: &str) -> String {
    let command = arguments.split(['#', '>', '&', ';']).next().unwrap_or_default();
    let command = command.split(" | ").next().unwrap_or_default();
    let command = command.split("  ").next().unwrap_or_default().replace("\\|", "|");
    let words = command.split_whitespace().filter(|word| !word.starts_with('[') && *word != "...");
    let words = words.map(|word| {
        let word = word.split('|').next().unwrap_or_default().trim_end_matches("...").trim_end_matches('\\');
        let placeholder = word.chars().all(|letter| letter.is_ascii_uppercase());
        if placeholder { "1" } else { word }
    });
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn page() -> String {
    let mut page = "# Reference\n\nThis page lists every verb of optloop and every key of config.toml. It is generated from both, and \
                    a test keeps it up to date.\n\n## Verbs\n\n`optloop --project DIR VERB` works on the project in another folder. \
                    `optloop VERB --help` has examples.\n"
        .to_owned();
    let command = visible();
    for verb in command.get_subcommands() {
        page.push_str(&of_verb(verb));
    }
    page.push_str("\n## config.toml\n\nA key that is left out has the default given here. Unknown keys are errors.\n");
    page.push_str(&keys());
    page
}

fn of_verb(verb: &Command) -> String {
    let mut text = format!("\n### optloop {}\n\n{}.\n", verb.get_name(), about(verb));
    let shown: Vec<&Arg> = verb.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help").collect();
    if !shown.is_empty() {
        text.push_str("\n| argument | meaning |\n|---|---|\n");
        for arg in shown {
            text.push_str(&format!("| `{}` | {} |\n", name(arg), meaning(arg)));
        }
    }
    text
}

fn about(verb: &Command) -> String {
    verb.get_about().map(ToString::to_string).unwrap_or_default().trim_end_matches('.').to_owned()
}

/// Names an argument as its user writes it.
fn name(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(|names| names.first()).map(|name| name.to_string());
    let value = value.unwrap_or_else(|| arg.get_id().to_string().to_uppercase());
    let takes_value = arg.get_action().takes_values();
    match arg.get_long() {
        Some(long) if takes_value => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None if arg.is_required_set() => value,
        None => format!("[{value}]"),
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    let values = match arg.get_action().takes_values() && !values.is_empty() {
        true => format!(": {}", values.join(", ")),
        false => String::new(),
    };
    let default: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let default = match arg.get_action().takes_values() && !default.is_empty() {
        true => format!(" [default: {}]", default.join(" ")),
        false => String::new(),
    };
    cell(&format!("{}{values}{default}", help.trim_end_matches('.')))
}

/// Returns the keys of config.toml, with the comments above them. A comment stands for all keys below it.
fn keys() -> String {
    let (mut text, mut comment, mut has_table) = (String::new(), Vec::new(), false);
    let mut is_new = true;
    for line in shipped::CONFIG.lines() {
        if let Some(said) = line.strip_prefix('#') {
            if !is_new {
                comment.clear();
            }
            is_new = true;
            comment.push(said.trim());
        } else if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            text.push_str(&format!("\n### [{section}]\n"));
            if !comment.is_empty() {
                text.push_str(&format!("\n{}\n", cell(&std::mem::take(&mut comment).join(" "))));
            }
            has_table = false;
        } else if let Some((key, value)) = line.split_once(" = ") {
            if !std::mem::replace(&mut has_table, true) {
                text.push_str("\n| key | default | meaning |\n|---|---|---|\n");
            }
            let meaning = if is_new { cell(&comment.join(" ")) } else { "as above".to_owned() };
            text.push_str(&format!("| `{key}` | `{}` | {meaning} |\n", cell(value)));
            is_new = false;
        } else {
            comment.clear();
            is_new = true;
        }
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
