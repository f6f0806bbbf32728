//! An SVG that follows the page's colours. `plotters` writes fixed colours, so each of ours stands for a variable of the
//! style sheet, and the attributes that name it are replaced afterwards.

use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea, RGBColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, FontStyle, RGBAColor, TextStyle};

use crate::domain::text::escape::html;

/// What is drawn on.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What went wrong in drawing. A drawing in memory fails only for a mistake in its coordinates.
pub(super) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Pixels of a letter's height.
const FONT_SIZE: f64 = 12.0;

/// `plotters` divides font sizes by this in its SVGs.
const PLOTTERS_FONT: f64 = 1.24;

/// A colour of the style sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// Text and axes.
    Text,
    /// Secondary text.
    Muted,
    /// Lines of the grid.
    Grid,
    /// Ours.
    Ours,
    /// The baseline.
    Baseline,
    /// The floor, and other bounds.
    Bound,
    /// A fourth colour.
    Fourth,
    /// The page.
    Paper,
}

impl Ink {
    const ALL: [Self; 8] =
        [Self::Text, Self::Muted, Self::Grid, Self::Ours, Self::Baseline, Self::Bound, Self::Fourth, Self::Paper];

    /// Returns the variable of the style sheet.
    fn variable(self) -> &'static str {
        match self {
            Self::Text => "--text",
            Self::Muted => "--muted",
            Self::Grid => "--grid",
            Self::Ours => "--ours",
            Self::Baseline => "--baseline",
            Self::Bound => "--bound",
            Self::Fourth => "--fourth",
            Self::Paper => "--paper",
        }
    }

    /// Returns the colour that stands for it until the SVG is written.
    pub(super) fn color(self) -> RGBColor {
        RGBColor(0x0A, 0x0B, self as u8)
    }

    /// Returns the colour with an opacity from 0 to 1.
    pub(super) fn at(self, opacity: f64) -> RGBAColor {
        self.color().mix(opacity)
    }
}

/// Returns a style of text, anchored at a side.
pub(super) fn text(ink: Ink, side: HPos) -> TextStyle<'static> {
    let font = plotters::style::FontDesc::new(FontFamily::SansSerif, FONT_SIZE * PLOTTERS_FONT, FontStyle::Normal);
    let color = ink.color();
    TextStyle { font, color: color.to_backend_color(), pos: Pos::new(side, VPos::Center) }
}

/// Draws an SVG of a size in pixels. It scales with the page, and its text is escaped. `title` is its text alternative.
pub(super) fn svg((width, height): (u32, u32), title: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut written = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut written, (width, height)).into_drawing_area();
        draw(&area).and_then(|()| Ok(area.present()?))
    };
    if let Err(problem) = drawn {
        // The table beside the picture has its figures.
        tracing::warn!("the picture `{title}` could not be drawn: {problem}");
        return String::new();
    }
    let shapes = written.split_once('>').map_or("", |(_, shapes)| shapes);
    let mut shapes = shapes.replace("font-family=\"sans-serif\" ", "");
    for ink in Ink::ALL {
        // With its quotes, it cannot be part of a text: there, quotes are escaped.
        let RGBColor(red, green, blue) = ink.color();
        let fixed = format!("=\"#{red:02X}{green:02X}{blue:02X}\"");
        shapes = shapes.replace(&fixed, &format!("=\"var({})\"", ink.variable()));
    }
    let title = html(title);
    format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">{shapes}"
    )
}

/// Cuts a text that is too long for its place.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use plotters::element::Text;

    use super::*;

    #[test]
    fn a_drawing_has_the_pages_colours_and_hostile_text_is_no_markup() {
        let hostile = "<script>alert(1)</script>\" onload=\"x =\"#0A0B00\"";
        let drawn = svg((40, 20), hostile, |area| {
            area.draw(&Text::new(hostile, (3, 9), text(Ink::Ours, HPos::Left)))?;
            Ok(())
        });
        insta::assert_snapshot!(drawn, @r#"
        <svg width="40" height="20" viewBox="0 0 40 20" role="img" aria-label="&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&quot;x =&quot;#0A0B00&quot;">
        <text x="3" y="9" dy="0.5ex" text-anchor="start" font-size="12" opacity="1" fill="var(--ours)">
        &lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&quot;x =&quot;#0A0B00&quot;
        </text>
        </svg>
        "#);
        assert!(!drawn.contains("<script") && !drawn.contains("\" onload"), "{drawn}");
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!([cut("größe", 5), cut("größer", 5), cut("", 0)], ["größe", "größ…", ""]);
    }
}
