//! A chart with two axes. Marks are given in the units of the figures.

use std::ops::Range;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::{Cartesian2d, Circle, PathElement, SVGBackend, Text};
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, ShapeStyle};

use super::canvas::{Area, Drawn, Ink, cut, text};
use super::scale::{Axis, mark};

/// Pixels between the marks of an axis.
const MARK_SPACING: (u32, u32) = (64, 34);

/// Pixels from one name at the end of a line to the next.
const NAME_HEIGHT: i32 = 14;

/// The most letters of such a name.
const MAX_NAME: usize = 12;

/// Pixels of half a point.
const RADIUS: i32 = 4;

/// An axis as `plotters` needs it.
struct Marked {
    axis: Axis,
    marks: Vec<f64>,
    /// The names of rows, the first one at the top. None for an axis of figures.
    rows: Option<Vec<String>>,
}

impl Ranged for Marked {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        let (from, to) = self.axis.ends();
        let share = (self.axis.place(*value) - from) / (to - from);
        let share = if self.rows.is_some() { 1.0 - share } else { share };
        begin + (f64::from(end - begin) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.axis.from..self.axis.to
    }
}

impl ValueFormatter<f64> for Marked {
    fn format(value: &f64) -> String {
        mark(*value)
    }
}

type Coordinates = Cartesian2d<Marked, Marked>;

/// The shape of a point. Shapes tell series apart without their colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A filled circle.
    Dot,
    /// An open circle.
    Ring,
}

/// The room beside the axes of a chart, in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// On the left, for the labels of the vertical axis.
    pub(super) left: u32,
    /// On the right, for labels of marks.
    pub(super) right: u32,
}

/// Pixels of a letter, at most.
const LETTER: u32 = 7;

impl Room {
    /// Returns the room for the names of rows.
    pub(super) fn beside(names: &[String]) -> Self {
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
        Self { left: longest * LETTER + 14, right: 16 }
    }
}

/// A chart that is being drawn.
pub(super) struct Chart<'a, 'b> {
    area: &'a Area<'b>,
    context: ChartContext<'a, SVGBackend<'b>, Coordinates>,
    x: &'a Axis,
    y: &'a Axis,
}

impl<'a, 'b> Chart<'a, 'b> {
    /// Begins a chart with its grid, marks and the names of its axes. With `rows`, the vertical axis names rows, the
    /// first one at the top, and is [`Axis::rows`].
    pub(super) fn new(
        area: &'a Area<'b>,
        (x, y): (&'a Axis, &'a Axis),
        Room { left, right }: Room,
        rows: Option<&[String]>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let (width, height) = area.dim_in_pixel();
        let (above, below) = (if y.label.is_empty() { 8 } else { 24 }, if x.label.is_empty() { 22 } else { 40 });
        let most = |pixels: u32, spacing: u32| (pixels / spacing).max(2) as usize;
        let marks = x.marks(most(width.saturating_sub(left + right), MARK_SPACING.0));
        let horizontal = Marked { axis: x.clone(), marks, rows: None };
        let marks = match rows {
            Some(rows) => (0..rows.len()).map(|row| row as f64).collect(),
            None => y.marks(most(height.saturating_sub(above + below), MARK_SPACING.1)),
        };
        let vertical = Marked { axis: y.clone(), marks, rows: rows.map(<[String]>::to_vec) };
        let mut context = ChartBuilder::on(area)
            .margin_top(above)
            .margin_right(right)
            .y_label_area_size(left)
            .x_label_area_size(below)
            .build_cartesian_2d(horizontal, vertical)?;
        let name = |place: &f64| match rows {
            Some(rows) => rows.get(place.round() as usize).cloned().unwrap_or_default(),
            None => mark(*place),
        };
        context
            .configure_mesh()
            .bold_line_style(Ink::Grid.color().stroke_width(1))
            .light_line_style(Ink::Grid.at(0.0))
            .axis_style(Ink::Muted.color().stroke_width(1))
            .x_label_style(text(Ink::Text, HPos::Center))
            .y_label_style(text(Ink::Text, HPos::Right))
            .axis_desc_style(text(Ink::Muted, HPos::Center))
            .y_label_formatter(&name)
            .x_desc(x.label.clone())
            .draw()?;
        if !y.label.is_empty() {
            area.draw(&Text::new(y.label.clone(), (2, 9), text(Ink::Muted, HPos::Left)))?;
        }
        Ok(Self { area, context, x, y })
    }

    /// Returns the pixel of a point.
    fn pixel(&self, point: (f64, f64)) -> (i32, i32) {
        self.context.backend_coord(&point)
    }

    fn pixels(&self, points: impl IntoIterator<Item = (f64, f64)>) -> Vec<(i32, i32)> {
        points.into_iter().map(|point| self.pixel(point)).collect()
    }

    /// Draws a line through points.
    pub(super) fn line(&self, points: impl IntoIterator<Item = (f64, f64)>, ink: Ink, width: u32) -> Drawn {
        Ok(self.area.draw(&PathElement::new(self.pixels(points), ink.color().stroke_width(width)))?)
    }

    /// Draws a vertical line over the whole height.
    pub(super) fn upright(&self, x: f64, ink: Ink) -> Drawn {
        self.line([(x, self.y.from), (x, self.y.to)], ink, 2)
    }

    /// Draws a point, shifted by pixels.
    pub(super) fn point(&self, at: (f64, f64), by: (i32, i32), ink: Ink, shape: Shape) -> Drawn {
        let (x, y) = self.pixel(at);
        let (x, y, r) = (x + by.0, y + by.1, RADIUS);
        let (filled, line): (ShapeStyle, _) = (ink.color().filled(), ink.color().stroke_width(2));
        match shape {
            Shape::Dot => self.area.draw(&Circle::new((x, y), r, filled))?,
            Shape::Ring => {
                self.area.draw(&Circle::new((x, y), r, Ink::Paper.color().filled()))?;
                self.area.draw(&Circle::new((x, y), r, line))?;
            }
        }
        Ok(())
    }

    /// Draws an interval from left to right, with a bar at both ends, shifted down by pixels.
    pub(super) fn interval(&self, (lo, hi): (f64, f64), y: f64, down: i32, ink: Ink) -> Drawn {
        let line = ink.color().stroke_width(2);
        let [(x0, y0), (x1, _)] = [lo, hi].map(|x| self.pixel((x, y)));
        let y = y0 + down;
        for path in [[(x0, y), (x1, y)], [(x0, y - 4), (x0, y + 4)], [(x1, y - 4), (x1, y + 4)]] {
            self.area.draw(&PathElement::new(path.to_vec(), line))?;
        }
        Ok(())
    }

    /// Names the ends of lines at the right of the chart: the values at their ends, their names and inks. Names that would hide
    /// each other move apart.
    pub(super) fn names(&self, mut ends: Vec<(f64, &str, Ink)>) -> Drawn {
        ends.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut least = i32::MIN;
        for (value, name, ink) in ends {
            let (x, y) = self.pixel((self.x.to, value));
            let y = y.max(least);
            least = y + NAME_HEIGHT;
            self.area.draw(&Text::new(cut(name, MAX_NAME), (x + 4, y), text(ink, HPos::Left)))?;
        }
        Ok(())
    }
}
