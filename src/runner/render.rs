//! Renders a family's template into the CUDA source of a variant.

use serde::{Deserialize, Serialize};
use tera::{Context, Delimiters, ErrorKind, Tera};

use crate::domain::family::Family;
use crate::domain::op::{Dims, Dtype};
use crate::domain::variant::{Params, Variant, VariantHash, show_params};
use crate::error::{Error, Result, error};
use crate::secrets;

/// A template with the values that it is rendered with.
#[derive(Debug, Serialize, Deserialize)]
pub struct Template {
    /// The family's name, for messages.
    name: String,
    text: String,
    numbers: Vec<(String, i64)>,
    dtype: String,
}

impl Template {
    /// Returns the template of `family` with the values of a configuration.
    pub fn new(family: &Family, specialization: &Dims, dtype: Dtype, params: &Params) -> Result<Self> {
        let values = family.template_values(specialization, dtype, params).map_err(Error::new)?;
        let numbers = values.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        Ok(Self { name: family.name.clone(), text: family.template.clone(), numbers, dtype: dtype.name().to_owned() })
    }
}

/// Why a template does not expand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}{message}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct TemplateError {
    /// The line of the template with its fragments, counted from 1, if it is known.
    pub line: Option<usize>,
    /// One sentence.
    pub message: String,
}

impl From<Error> for TemplateError {
    fn from(error: Error) -> Self {
        Self { line: None, message: error.to_string() }
    }
}

/// Expands a template. Runs for as long, and takes as much memory, as the template wants: see [`super::renderer`].
///
/// Templates use `<$ NAME $>` for values, `<% if … %>` for blocks and `<# … #>` for comments. The usual braces collide
/// with C++ and inline PTX. A name that is not bound is an error. In addition to the numbers of
/// [`Family::template_values`], a template may use the string `DTYPE`.
pub fn expand(template: &Template) -> Result<String, TemplateError> {
    let mut context = Context::new();
    for (name, value) in &template.numbers {
        context.insert(name.clone(), value);
    }
    context.insert("DTYPE", &template.dtype);
    engine(template).and_then(|tera| tera.render(&template.name, &context)).map_err(|error| mistake(&error))
}

/// Renders a variant in this process, without limits: for tests, and for templates that are known to end. All other
/// templates go to a [`Renderer`](super::renderer::Renderer).
pub fn render(family: &Family, specialization: &Dims, dtype: Dtype, params: &Params) -> Result<Variant> {
    let body =
        expand(&Template::new(family, specialization, dtype, params)?).map_err(|error| explain(family, &error))?;
    variant(family, specialization, dtype, params, &body)
}

/// Returns the error for a template that does not render, with its family.
pub fn explain(family: &Family, problem: &TemplateError) -> Error {
    error!("family `{}`: its template does not render: {problem}", family.name)
}

/// Makes the variant whose template has expanded to `body`.
pub fn variant(family: &Family, specialization: &Dims, dtype: Dtype, params: &Params, body: &str) -> Result<Variant> {
    let named = family.named_constants(specialization);
    let constants = named.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
    let source = format!(
        "// {family} for {dtype}, {constants}\n// {params}\n{body}",
        family = family.name,
        dtype = dtype.name(),
        params = show_params(params),
    );
    // A source is kept, committed and shown unchanged, so secrets in it cannot be masked.
    if secrets::found_in(&source) {
        return Err(
            error!("family `{}`: its source contains a secret from the environment", family.name).hint("remove it")
        );
    }
    Ok(Variant { family: family.name.clone(), params: params.clone(), hash: VariantHash::of(&source), source })
}

fn engine(template: &Template) -> tera::TeraResult<Tera> {
    let mut tera = Tera::new();
    tera.set_delimiters(Delimiters {
        block_start: "<%".into(),
        block_end: "%>".into(),
        variable_start: "<$".into(),
        variable_end: "$>".into(),
        comment_start: "<#".into(),
        comment_end: "#>".into(),
    })?;
    tera.add_raw_template(&template.name, &template.text)?;
    Ok(tera)
}

/// Takes the message and the line from Tera's report, which shows the template over several lines.
fn mistake(error: &tera::Error) -> TemplateError {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match error.kind() {
        ErrorKind::SyntaxError(report) | ErrorKind::RenderingError(report) => {
            TemplateError { line: Some(report.span().start_line), message: one_line(report.message()) }
        }
        kind => TemplateError { line: None, message: one_line(&kind.to_string()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
        name = "copy"
        about = "A test family."
        op = "attention"
        dtypes = ["f16"]
        requires_sm = 80
        constants = ["D"]
        [params.VEC]
        values = [1, 2]
        default = 1
        about = "elements per load"
        expect = [1.0, 2.0]
        [derived]
        STEPS = "D / VEC"
        TILES = "ceil_div(Sq, VEC)"
        [[launch]]
        kernel = "copy"
        grid = ["TILES"]
        block = ["32"]
        args = ["q", "o"]
    "#;

    fn rendered(template: &str) -> Result<String> {
        let family = Family::parse(MANIFEST, template.to_owned()).unwrap();
        let constants = [("D".to_owned(), 64)].into_iter().collect();
        render(&family, &constants, Dtype::F16, &family.defaults()).map(|variant| variant.source)
    }

    #[test]
    fn values_and_blocks_are_filled_in_and_braces_are_left_alone() {
        let source = rendered(
            "constexpr int D = <$ D $>, STEPS = <$ STEPS $>;<# a note #>\n\
             <% if DTYPE == \"f16\" %>asm(\"mov.b32 {%0}, %1;\");<% endif %>",
        );
        insta::assert_snapshot!(source.unwrap(), @r#"
        // copy for f16, D=64
        // VEC=1
        constexpr int D = 64, STEPS = 64;
        asm("mov.b32 {%0}, %1;");
        "#);
    }

    #[test]
    fn a_name_that_is_not_bound_is_an_error_that_names_the_family() {
        let error = rendered("constexpr int X = <$ X $>;").unwrap_err().to_string();
        assert!(error.starts_with("family `copy`: its template does not render:") && error.contains('X'), "{error}");
        // A derived value that depends on the launch, and not on the source, is not bound either.
        assert!(rendered("<$ TILES $>").unwrap_err().to_string().contains("TILES"));
        assert!(rendered("<% if %>").is_err());
    }
}
