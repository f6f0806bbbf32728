//! The page that all HTML reports share: its templates, filters, style sheet and content security policy.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tera::{Context, Kwargs, State, Tera, Value};

use super::markup;
use crate::report::{ReportError, markdown};

/// The style sheet, which the page contains.
const STYLE: &str = include_str!("../../../templates/reports/html/style.css");

/// The templates, by the names under which they include each other. Names that end with `.html` are escaped.
const TEMPLATES: [(&str, &str); 13] = [
    ("page.html", include_str!("../../../templates/reports/html/page.html.tera")),
    ("table.html", include_str!("../../../templates/reports/html/table.html.tera")),
    ("figure.html", include_str!("../../../templates/reports/html/figure.html.tera")),
    ("findings.html", include_str!("../../../templates/reports/html/findings.html.tera")),
    ("lineage.html", include_str!("../../../templates/reports/html/lineage.html.tera")),
    ("explained.html", include_str!("../../../templates/reports/html/explained.html.tera")),
    ("evidence.html", include_str!("../../../templates/reports/html/evidence.html.tera")),
    ("hypotheses.html", include_str!("../../../templates/reports/html/hypotheses.html.tera")),
    ("figures.html", include_str!("../../../templates/reports/html/figures.html.tera")),
    ("record.html", include_str!("../../../templates/reports/html/record.html.tera")),
    ("report.html", include_str!("../../../templates/reports/html/report.html.tera")),
    ("ledger.html", include_str!("../../../templates/reports/html/ledger.html.tera")),
    ("two.html", include_str!("../../../templates/reports/html/two.html.tera")),
];

/// Registers a conversion from Markdown to HTML as a filter.
fn register(tera: &mut Tera, name: &'static str, convert: fn(&str) -> String) {
    tera.register_filter(name, move |value: &Value, _: Kwargs, _: &State| {
        Value::safe_string(&convert(value.as_str().unwrap_or_default()))
    });
}

/// Renders a template with the style sheet.
pub(super) fn render(name: &str, mut context: Context) -> Result<String, ReportError> {
    let mut tera = markdown::engine();
    tera.autoescape_on([".html"]);
    register(&mut tera, "md", markup::blocks);
    register(&mut tera, "md_inline", markup::inline);
    tera.add_raw_templates(TEMPLATES)?;
    context.insert("style", STYLE);
    context.insert("style_hash", &format!("sha256-{}", STANDARD.encode(Sha256::digest(STYLE))));
    Ok(tera.render(name, &context)?)
}
