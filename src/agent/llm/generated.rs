//! Turns the code of a language model into a family and a configuration.
//!
//! All of this text is untrusted. The family gets a name that optloop chooses, only the headers that the source rules
//! allow, and limits. Its output is checked like that of any other variant.

use std::collections::BTreeSet;

use super::answer::Code;
use super::edits;
use crate::domain::claims::approach::{Approach, Form};
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::variant::Params;
use crate::domain::workload::{Case, Workload};
use crate::error::{Error, error};

/// The most bytes of a template, with those of fragments that an edited one contains. The largest of the shipped ones
/// has 33 KB.
const MAX_SOURCE_BYTES: usize = 128 << 10;

/// The most bytes of a manifest. The largest of the shipped ones has 12 KB.
const MAX_MANIFEST_BYTES: usize = 32 << 10;

/// The most parameters of a search space, and values of a parameter. The shipped families have up to 17 and 10.
const MAX_PARAMS: usize = 24;
const MAX_VALUES: usize = 32;

/// The most launches of a plan, and the most workspaces. The shipped families have up to 2 of each.
const MAX_LAUNCHES: usize = 8;

/// The length of the hash in a name.
const HASH_DIGITS: usize = 8;

/// The prefix of the names of generated families, which shows where they come from.
pub const PREFIX: &str = "llm-";

/// The longest part of a name that a model chooses.
const MAX_NAME_CHARS: usize = 32;

/// A configuration to try, of a family that exists or of a new one.
#[derive(Debug, Clone)]
pub struct Generated {
    /// The new family. None for a configuration of one that exists.
    pub family: Option<Family>,
    /// The name of the family.
    pub name: String,
    /// The configuration to try first.
    pub params: Params,
}

/// The families and the incumbent when code arrives.
pub struct Existing<'a> {
    /// Every family, with earlier generated ones.
    pub families: &'a [Family],
    /// The fastest configurations on the case of the family that the approach changes, the fastest first.
    pub fastest: Vec<&'a Params>,
    /// The workload.
    pub workload: &'a Workload,
    /// The case of the approach.
    pub case: &'a Case,
    /// The device.
    pub device: &'a DeviceInfo,
}

/// Makes a configuration from an approach that needs no code.
pub fn of_parameters(approach: &Approach, existing: &Existing<'_>) -> Result<Generated, Error> {
    let family = existing.family(&approach.family)?;
    let params = existing.configuration(family, &approach.parameters, None)?;
    Ok(Generated { family: None, name: family.name.clone(), params })
}

/// Makes a configuration from code. The error lists all mistakes, for the model.
pub fn of_code(code: &Code, approach: &Approach, existing: &Existing<'_>) -> Result<Generated, Error> {
    let family = match code.form {
        Form::Parameters => {
            let family = existing.family(&approach.family)?;
            let params = existing.configuration(family, &code.parameters, None)?;
            return Ok(Generated { family: None, name: family.name.clone(), params });
        }
        Form::Edits => {
            let base = existing.family(&approach.family)?;
            let (template, manifest) = edits::of_family(base, &code.edits, &code.manifest_edits)?;
            existing.made(code, &manifest, template)?
        }
        Form::Kernel => existing.made(code, &code.manifest, literal(&code.source)?)?,
        Form::Family => existing.made(code, &code.manifest, code.source.clone())?,
    };
    let params = existing.configuration(&family, &code.parameters, Some(code.form))?;
    Ok(Generated { name: family.name.clone(), family: Some(family), params })
}

impl Existing<'_> {
    fn family(&self, name: &str) -> Result<&Family, Error> {
        self.families.iter().find(|family| family.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.families.iter().map(|family| family.name.as_str()).collect();
            error!("there is no family `{name}`; there are: {}", known.join(", "))
        })
    }

    /// Makes a family from a manifest and a template.
    fn made(&self, code: &Code, manifest: &str, template: String) -> Result<Family, Error> {
        check_sizes(manifest, &template)?;
        check_template(&template)?;
        let name = name(&code.name, manifest, &template);
        let own = self.workload.op;
        let find_op = |op: &str| {
            let other = || error!("its op is `{op}`, and the workload's is `{}`", own.name());
            if op == own.name() { Ok(own) } else { Err(other()) }
        };
        let family = Family::parse_with_op(&renamed(manifest, &name, &code.about)?, template, find_op);
        let family = family.map_err(|mistakes| mistakes.join("; "))?;
        let problems = check_family(&family);
        if !problems.is_empty() {
            return Err(Error::of_all(&problems));
        }
        let (own, own_space) = (normalised(&family.template), family.params.keys().collect::<Vec<_>>());
        let own_plan = plan(&family);
        let same = self.families.iter().find(|other| {
            let has_space = other.params.keys().collect::<Vec<_>>() == own_space;
            has_space && normalised(&other.template) == own && plan(other) == own_plan
        });
        match same {
            Some(other) => Err(error!("it is the same as the family `{}` except for blanks and comments", other.name)),
            None => Ok(family),
        }
    }

    /// Completes a configuration. Missing values are those of the fastest configuration that is valid with them, else the
    /// defaults. If none is, the fastest configuration that is valid as it stands takes its place: parameters that the model
    /// has chosen for an edit are not worth a correction that is paid for.
    fn configuration(&self, family: &Family, given: &Params, code: Option<Form>) -> Result<Params, Error> {
        let mut problems = Vec::new();
        for (name, value) in given {
            match family.params.get(name) {
                None => problems.push(format!("`{}` has no parameter `{name}`", family.name)),
                Some(param) if !param.values.contains(value) => {
                    problems.push(format!("`{name}` = {value} is not one of {:?}", param.values));
                }
                Some(_) => {}
            }
        }
        if !problems.is_empty() {
            return Err(Error::of_all(&problems));
        }
        let with = |base: Option<&Params>, given: &Params| -> Params {
            let value = |name: &String, default: i64| {
                let kept = || base.and_then(|params| params.get(name).copied());
                let kept = || kept().filter(|value| family.params[name].values.contains(value));
                given.get(name).copied().or_else(kept).unwrap_or(default)
            };
            family.params.iter().map(|(name, param)| (name.clone(), value(name, param.default))).collect()
        };
        let none = Params::default();
        // An approach that names parameters is about these. In code, they are where to begin.
        let own: &[&Params] = if code.is_some() { &[given, &none] } else { &[given] };
        // The values of another family mean nothing in one that is written anew.
        let is_new = matches!(code, Some(Form::Kernel | Form::Family));
        let bases = || self.fastest.iter().copied().filter(|_| !is_new).map(Some).chain([None]);
        let candidates: Vec<Params> =
            own.iter().flat_map(|given| bases().map(|base| with(base, given)).collect::<Vec<_>>()).collect();
        let mut why = None;
        for params in candidates {
            match self.why_not(family, &params) {
                None => return Ok(params),
                Some(problem) => drop(why.get_or_insert(problem)),
            }
        }
        Err(why.unwrap_or_default().into())
    }

    /// Returns why a configuration cannot run on the case: a constraint, or its launch plan.
    fn why_not(&self, family: &Family, params: &Params) -> Option<String> {
        let Workload { op, dtype, .. } = self.workload;
        family.plan(params, self.case, *op, *dtype, self.device).err().map(|error| error.to_string())
    }
}

fn check_sizes(manifest: &str, template: &str) -> Result<(), Error> {
    if template.len() > MAX_SOURCE_BYTES {
        return Err(error!("the source has {} bytes, and at most {MAX_SOURCE_BYTES} are allowed", template.len()));
    }
    if template.trim().is_empty() {
        return Err(Error::new("`source` is empty").hint("give the CUDA source"));
    }
    if manifest.len() > MAX_MANIFEST_BYTES {
        return Err(error!("the manifest has {} bytes, and at most {MAX_MANIFEST_BYTES} are allowed", manifest.len()));
    }
    Ok(())
}

/// Refuses statements that only template files may have. The templates that a model sees already contain their
/// fragments.
fn check_template(template: &str) -> Result<(), Error> {
    let statement =
        |rest: &str| rest.trim_start_matches(['-', ' ', '\t', '\n']).split_whitespace().next().map(str::to_owned);
    let statements = template.split("<%").skip(1).filter_map(statement);
    let allowed = ["if", "elif", "else", "endif", "for", "endfor", "set", "set_global", "raw", "endraw"];
    let unknown: BTreeSet<String> = statements.filter(|word| !allowed.contains(&word.as_str())).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown: Vec<String> = unknown.into_iter().collect();
    Err(error!("the template uses `{}`: only if, for, set and raw are allowed", unknown.join("`, `")))
}

/// Returns a source as a template that renders to it.
fn literal(source: &str) -> Result<String, Error> {
    if source.contains("<$") {
        return Err(Error::new(
            "a `kernel` is not rendered: write the values in place of <$ NAME $>, or choose `family`",
        ));
    }
    if source.contains("endraw") {
        return Err(Error::new("the source contains `endraw`").hint("remove it"));
    }
    let is_plain = !["<$", "<%", "<#"].iter().any(|opening| source.contains(opening));
    Ok(if is_plain { source.to_owned() } else { format!("<% raw %>{source}<% endraw %>") })
}

/// Returns the name of a generated family: the model's name for it and a hash, so that names are unique.
fn name(given: &str, manifest: &str, template: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = given.chars().map(plain).collect();
    let words: Vec<&str> = words.split('-').filter(|word| !word.is_empty()).collect();
    let mut words = words.join("-");
    words.truncate(MAX_NAME_CHARS);
    let hash = blake3::hash(format!("{manifest}\0{template}").as_bytes()).to_hex();
    let words = if words.is_empty() { "kernel".to_owned() } else { words };
    format!("{PREFIX}{}-{}", words.trim_end_matches('-'), &hash[..HASH_DIGITS])
}

/// Sets the name of a manifest. Headers are removed: they are folders of the project, which a model does not choose.
fn renamed(manifest: &str, name: &str, about: &str) -> Result<String, Error> {
    let mut table: toml::Table =
        toml::from_str(manifest).map_err(|error| error!("the manifest is not TOML: {}", error.message()))?;
    table.insert("name".to_owned(), name.into());
    if !about.trim().is_empty() {
        table.insert("about".to_owned(), about.split_whitespace().collect::<Vec<_>>().join(" ").into());
    }
    table.remove("headers");
    toml::to_string(&table).map_err(|error| error!("the manifest cannot be written: {error}"))
}

/// Lists the limits that a parsed family exceeds.
fn check_family(family: &Family) -> Vec<String> {
    let mut problems = Vec::new();
    if family.params.len() > MAX_PARAMS {
        problems.push(format!("it has {} parameters, and at most {MAX_PARAMS} are allowed", family.params.len()));
    }
    let long = family.params.iter().filter(|(_, param)| param.values.len() > MAX_VALUES);
    problems.extend(long.map(|(name, _)| format!("`{name}` has more than {MAX_VALUES} values")));
    let (launches, workspaces) = family.plan_entries();
    if launches > MAX_LAUNCHES || workspaces > MAX_LAUNCHES {
        problems.push(format!("at most {MAX_LAUNCHES} launches and as many workspaces are allowed"));
    }
    problems
}

/// Returns what a manifest says of how kernels are launched. A source with another grid is another kernel.
fn plan(family: &Family) -> Option<toml::Table> {
    let mut table: toml::Table = toml::from_str(&family.manifest).ok()?;
    ["name", "about", "params", "constraint"].iter().for_each(|key| drop(table.remove(*key)));
    Some(table)
}

/// Returns a source without comments and blanks, to find near-duplicates.
fn normalised(source: &str) -> String {
    let mut kept = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.find("*/").map_or("", |end| &comment[end + 2..]);
        } else {
            if !c.is_whitespace() {
                kept.push(c);
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blanks_make_no_difference() {
        assert_eq!(normalised("int a; // one\n/* two */ int b;"), normalised("int a;\nint  b;"));
        assert_ne!(normalised("int a = 1;"), normalised("int a = 2;"));
    }

    #[test]
    fn a_generated_name_is_always_a_folder_name() {
        let of = |given: &str| name(given, "m", "t");
        assert!(of("Double Buffer").starts_with("llm-double-buffer-"), "{}", of("Double Buffer"));
        assert!(of("../../etc/passwd").starts_with("llm-etc-passwd-"));
        assert!(of("").starts_with("llm-kernel-"));
        assert!(of(&"x-".repeat(100)).len() <= 64);
        assert_ne!(name("a", "m", "t"), name("a", "m", "u"));
    }

    #[test]
    fn a_plain_source_is_rendered_as_it_stands() {
        assert_eq!(literal("a << b;").unwrap(), "a << b;");
        assert_eq!(literal("x<%y").unwrap(), "<% raw %>x<%y<% endraw %>");
        assert!(literal("constexpr int D = <$ D $>;").is_err());
        assert!(literal("<% endraw %>").is_err());
        assert!(check_template("<% if A == 1 %>x<% endif %>").is_ok());
        assert_eq!(
            check_template("<% include \"a\" %><%- import \"b\" %>").unwrap_err(),
            "the template uses `import`, `include`: only if, for, set and raw are allowed".into()
        );
    }
}
