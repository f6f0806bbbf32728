//! The contract for programs: the names of all fields.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

/// Collects the names of the fields of each object, by its path. Items of a list share a path. Maps whose names are data are left out.
fn names(value: &Value, path: &str, all: &mut BTreeMap<String, Vec<String>>) {
    const DATA: [&str; 7] =
        ["dims", "params", "iterations", "caught", "parameters.about", "parts_ns", "cases[].counters"];
    match value {
        Value::Object(fields) if !DATA.iter().any(|data| path.ends_with(data)) => {
            let known = all.entry(path.to_owned()).or_default();
            for name in fields.keys().filter(|name| !known.contains(name)).cloned().collect::<Vec<_>>() {
                known.push(name);
            }
            for (name, field) in fields {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                names(field, &below, all);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, &format!("{path}[]"), all)),
        _ => {}
    }
}

/// Each field that programs may read is described in docs/report-schema.md.
#[test]
fn every_field_of_the_contract_is_documented() {
    let mut all = BTreeMap::new();
    names(&serde_json::to_value(full::full(3)).unwrap(), "", &mut all);
    let schema = include_str!("../../../docs/report-schema.md");
    let missing: Vec<String> = all
        .iter()
        .flat_map(|(path, names)| names.iter().map(move |name| (path, name)))
        .filter(|(_, name)| !schema.contains(&format!("`{name}`")))
        .map(|(path, name)| format!("{path}.{name}"))
        .collect();
    assert_eq!(missing, [""; 0]);
    assert!(schema.starts_with(&format!("# The JSON report: `{}`", contract::SCHEMA)));
}

#[test]
fn missing_figures_are_null_and_kinds_are_names() {
    let json: Value = serde_json::from_str(&report(&record()).to_json().unwrap()).unwrap();
    let case = &json["cases"][0];
    assert_eq!(
        (&case["best_us"], &case["limit"]["by"], &case["change"]["improved"]),
        (&50.0.into(), &"idle_sms".into(), &true.into())
    );
    assert_eq!((&json["cases"][2]["best_us"], &json["cases"][2]["limit"]), (&Value::Null, &Value::Null));
    assert_eq!(json["advice"]["next"]["kind"], "go_on");
}
