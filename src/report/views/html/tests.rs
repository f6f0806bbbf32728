//! HTML reports as a whole.

use crate::report::tests::full::full;
use crate::report::tests::{record, report};

#[test]
fn a_report_is_one_file_that_loads_nothing_and_runs_nothing() {
    let html = report(&record()).to_html().unwrap();
    assert!(html.starts_with("<!doctype html>"), "{html}");
    assert!(html.contains("default-src 'none'; style-src 'sha256-"));
    for forbidden in
        ["<script", "<link", "<iframe", "@import", "url(", "http://", "https://", " src=", " style=", " onload"]
    {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
    for link in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(unique.contains(link), "#{link} leads nowhere");
    }
}

/// Names, claims, logs and versions may come from a stranger.
#[test]
fn hostile_text_stays_text_in_every_section() {
    const HOSTILE: &str = "x\"><script>alert(1)</script><img src=x onerror=alert(1)>|`'&";
    let mut record = record();
    record.session.workload = HOSTILE.to_owned();
    record.session.device = HOSTILE.to_owned();
    record.session.stop_reason = Some(HOSTILE.to_owned());
    record.environment.host = HOSTILE.to_owned();
    record.environment.torch = Some(HOSTILE.to_owned());
    record.baselines[0].name = HOSTILE.to_owned();
    record.session.cases[0] = HOSTILE.into();
    record.baselines[0].case = HOSTILE.into();
    for iteration in &mut record.iterations {
        iteration.family = HOSTILE.to_owned();
        iteration.rationale.hypothesis.claim = HOSTILE.to_owned();
        iteration.rationale.hypothesis.evidence = HOSTILE.to_owned();
        let params = iteration.params.values().copied().collect::<Vec<_>>();
        iteration.params = params.into_iter().enumerate().map(|(n, value)| (format!("{HOSTILE}{n}"), value)).collect();
        for found in iteration.measurements.iter_mut().filter(|found| found.case == "b1h1s128") {
            found.case = HOSTILE.into();
        }
        iteration.rationale.hypothesis.case = HOSTILE.into();
    }
    for session in &mut record.ledger {
        session.workload = HOSTILE.to_owned();
    }
    let html = report(&record).to_html().unwrap();
    assert!(html.contains("&lt;script&gt;alert(1)"), "it is shown");
    for markup in ["<script", "<img", "onerror=alert(1)>\"", "x\">"] {
        assert!(!html.contains(markup), "{markup} in {html}");
    }
}

/// `scripts/browser` names a folder in OPTLOOP_HTML_FOLDER, and looks at what this test writes there.
#[test]
fn a_report_with_everything_has_every_section_and_fits_into_300_kb() {
    let html = full(18).to_html().unwrap();
    assert!(html.len() < 300_000, "{} bytes", html.len());
    let sections = [
        "winners",
        "all-causes",
        "leads",
        "ablations",
        "hotspots",
        "counters",
        "paths",
        "parameters",
        "calibration",
        "baselines",
        "measuring",
        "results",
        "record",
    ];
    for id in sections {
        assert!(html.contains(&format!("<details id=\"{id}\"><summary>")), "{id} is folded");
    }
    assert!(html.contains("<figure id=\"best-over-time\"") && html.matches("<figure").count() == 1);
    let [figure, table, causes] = ["<figure", "<table", "id=\"causes\""].map(|part| html.find(part).unwrap());
    assert!(figure < causes && table < causes, "chart and table come first");
    assert!(!html.contains("<script") && !html.contains("href=\"javascript"));
    if let Some(folder) = std::env::var_os("OPTLOOP_HTML_FOLDER") {
        std::fs::write(std::path::Path::new(&folder).join("every-section.html"), html).unwrap();
    }
}
