//! A drawing as a list of marks, and its two outputs: SVG text and PNG pixels. The PNG uses a built-in font instead of
//! the system's, so that the same marks give the same bytes everywhere.

use schedlab_base::{Error, Result, printable};
use std::fmt::Write;
use tiny_skia::{Color, FillRule, LineCap, Paint, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Pixels of a PNG for each unit of a drawing.
const SCALE: f32 = 2.0;

/// The position of a text relative to its point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// One mark. Lengths are in units of the drawing, y goes down.
#[derive(Clone, Debug)]
pub enum Mark {
    Line {
        points: Vec<(f64, f64)>,
        color: u32,
        width: f64,
        dashed: bool,
    },
    /// A filled rectangle: left, top, width, height.
    Rect {
        at: (f64, f64),
        size: (f64, f64),
        color: u32,
    },
    /// A text whose baseline goes through a point.
    Text {
        at: (f64, f64),
        text: String,
        size: f64,
        anchor: Anchor,
    },
    /// A mark with a text that SVG viewers show under the pointer.
    Tipped {
        mark: Box<Mark>,
        tip: String,
    },
}

#[derive(Clone, Debug)]
pub struct Scene {
    pub size: (f64, f64),
    /// Marks; later ones cover earlier ones.
    pub marks: Vec<Mark>,
}

impl Scene {
    pub fn svg(&self) -> String {
        let (w, h) = self.size;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             font-family=\"DejaVu Sans, sans-serif\">\n<rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n"
        );
        for mark in &self.marks {
            // Writing to a String never fails.
            let _ = writeln!(out, "{}", element(mark));
        }
        out.push_str("</svg>\n");
        out
    }

    /// Draws the scene as PNG.
    ///
    /// # Errors
    /// When the drawing is too large for memory.
    pub fn png(&self) -> Result<Vec<u8>> {
        let pixels = |length: f64| (length as f32 * SCALE) as u32;
        let mut pixmap = Pixmap::new(pixels(self.size.0), pixels(self.size.1))
            .ok_or_else(|| Error::input("the plot is too large for a PNG").help("write it as .svg"))?;
        pixmap.fill(Color::WHITE);
        let font = Face::parse(dejavu::sans::regular(), 0)
            .map_err(|e| Error::internal(format!("the font of plots: {e}")))?;
        self.marks.iter().for_each(|mark| paint(&mut pixmap, &font, mark));
        pixmap.encode_png().map_err(|e| Error::internal(format!("the plot as PNG: {e}")))
    }
}

/// Escapes text for XML, which can't hold most control characters and two other characters.
fn escaped(text: &str) -> String {
    let text = printable::name(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A coordinate with at most two decimals.
fn short(v: f64) -> f64 {
    let rounded = (v * 100.0).round() / 100.0;
    if rounded == 0.0 { 0.0 } else { rounded }
}

fn element(mark: &Mark) -> String {
    match mark {
        Mark::Line { points, color, width, dashed } => {
            let points: Vec<String> =
                points.iter().map(|(x, y)| format!("{},{}", short(*x), short(*y))).collect();
            let dash = if *dashed { " stroke-dasharray=\"6 4\"" } else { "" };
            let points = points.join(" ");
            format!(
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"#{color:06x}\" stroke-width=\"{width}\"{dash}/>"
            )
        }
        Mark::Rect { at: (x, y), size: (w, h), color } => {
            let [x, y, w, h] = [*x, *y, *w, *h].map(short);
            format!("<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"#{color:06x}\"/>")
        }
        Mark::Tipped { mark, tip } => titled(&element(mark), tip),
        Mark::Text { at: (x, y), text, size, anchor } => {
            let (x, y) = (short(*x), short(*y));
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let text = escaped(text);
            format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{text}</text>")
        }
    }
}

/// An element with a title, which viewers show under the pointer.
fn titled(element: &str, tip: &str) -> String {
    match (element.strip_suffix("/>"), element.split_once([' ', '/', '>'])) {
        (Some(open), Some((name, _))) => {
            format!("{open}><title>{}</title></{}>", escaped(tip), name.trim_start_matches('<'))
        }
        _ => element.to_owned(),
    }
}

fn paint(pixmap: &mut Pixmap, font: &Face<'_>, mark: &Mark) {
    let scale = Transform::from_scale(SCALE, SCALE);
    match mark {
        Mark::Line { points, color, width, dashed } => {
            let mut path = PathBuilder::new();
            for (i, (x, y)) in points.iter().map(|(x, y)| (*x as f32, *y as f32)).enumerate() {
                if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
            }
            let dash = dashed.then(|| StrokeDash::new(vec![6.0, 4.0], 0.0)).flatten();
            let stroke = Stroke { width: *width as f32, dash, line_cap: LineCap::Butt, ..Stroke::default() };
            if let Some(path) = path.finish() {
                pixmap.stroke_path(&path, &ink(*color), &stroke, scale, None);
            }
        }
        Mark::Rect { at, size, color } => {
            let [x, y, w, h] = [at.0, at.1, size.0, size.1].map(|v| v as f32);
            if let Some(rect) = Rect::from_xywh(x, y, w, h) {
                pixmap.fill_rect(rect, &ink(*color), scale, None);
            }
        }
        Mark::Tipped { mark, .. } => paint(pixmap, font, mark),
        Mark::Text { at, text, size, anchor } => {
            let placed = scale.pre_translate(at.0 as f32, at.1 as f32);
            write(pixmap, font, text, *anchor, placed.pre_scale(*size as f32, *size as f32));
        }
    }
}

/// Fills the outlines of a text's glyphs. `place` maps a font size of 1 at the text's origin to pixels.
fn write(pixmap: &mut Pixmap, font: &Face<'_>, text: &str, anchor: Anchor, place: Transform) {
    let em = 1.0 / f32::from(font.units_per_em());
    let glyphs: Vec<GlyphId> = text.chars().map(|c| font.glyph_index(c).unwrap_or(GlyphId(0))).collect();
    let advance = |g: &GlyphId| f32::from(font.glyph_hor_advance(*g).unwrap_or(0));
    let width: f32 = glyphs.iter().map(advance).sum();
    let mut x = match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -width / 2.0,
        Anchor::End => -width,
    };
    for glyph in &glyphs {
        let mut outline = Outline(PathBuilder::new());
        font.outline_glyph(*glyph, &mut outline);
        if let Some(path) = outline.0.finish() {
            let place = place.pre_scale(em, -em).pre_translate(x, 0.0);
            pixmap.fill_path(&path, &ink(0), FillRule::Winding, place, None);
        }
        x += advance(glyph);
    }
}

fn ink(color: u32) -> Paint<'static> {
    let [_, r, g, b] = color.to_be_bytes();
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, 255);
    paint
}

/// A glyph's outline as a path, in the font's units; y goes up.
struct Outline(PathBuilder);

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.0.close();
    }
}
