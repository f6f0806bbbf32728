//! The page that all HTML reports share: its templates, style sheet and content security policy.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tera::{Context, Tera};

use crate::report::ReportError;

/// The style sheet, which the page contains.
const STYLE: &str = include_str!("../../../../templates/reports/html/style.css");

/// The templates, by the names under which they include each other. Names that end with `.html` are escaped.
const TEMPLATES: [(&str, &str); 6] = [
    ("page.html", include_str!("../../../../templates/reports/html/page.html.tera")),
    ("table.html", include_str!("../../../../templates/reports/html/table.html.tera")),
    ("figure.html", include_str!("../../../../templates/reports/html/figure.html.tera")),
    ("report.html", include_str!("../../../../templates/reports/html/report.html.tera")),
    ("ledger.html", include_str!("../../../../templates/reports/html/ledger.html.tera")),
    ("two.html", include_str!("../../../../templates/reports/html/two.html.tera")),
];

/// Renders a template with the style sheet.
pub(super) fn render(name: &str, mut context: Context) -> Result<String, ReportError> {
    let mut tera = Tera::new();
    tera.autoescape_on([".html"]);
    tera.add_raw_templates(TEMPLATES)?;
    context.insert("style", STYLE);
    context.insert("style_hash", &format!("sha256-{}", STANDARD.encode(Sha256::digest(STYLE))));
    Ok(tera.render(name, &context)?)
}
