//! A flame graph: stacks of calls with how often each was seen, as an SVG that any browser shows. The width of a box is the
//! part of the time that its function and what it called took; what it stands on called it. Point at a box to read it whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Of the picture, in pixels.
const WIDTH: f64 = 1_400.0;
const ROW: f64 = 17.0;
const TITLE: f64 = 30.0;
/// Boxes that are smaller than this are left out.
const BOX_MIN: f64 = 0.4;
/// Of a letter; as much text as fits is shown.
const LETTER: f64 = 6.6;
/// Calls deeper than this are left out.
const DEPTH_MAX: usize = 120;

/// A function, how often it was seen, and what it called.
#[derive(Debug, Default)]
pub struct Frame {
    samples: u64,
    calls: BTreeMap<String, Frame>,
}

impl Frame {
    /// Reads what `perf script -F comm,ip,sym` prints: for each sample the thread, then its calls, the innermost first.
    pub fn read(script: &str) -> Self {
        let mut root = Self::default();
        let mut stack: Vec<&str> = Vec::new();
        let mut thread = "";
        for line in script.lines().chain([""]) {
            if line.trim().is_empty() {
                if !thread.is_empty() {
                    root.add([thread].into_iter().chain(stack.drain(..).rev()));
                }
                thread = "";
            } else if line.starts_with(char::is_whitespace) && !thread.is_empty() {
                let call = line.trim().split_once(' ');
                stack.push(call.map_or("[unknown]", |(_, name)| name.trim()));
            } else {
                thread = line.trim();
            }
        }
        root
    }

    fn add<'s>(&mut self, stack: impl Iterator<Item = &'s str>) {
        self.samples += 1;
        let mut at = self;
        for name in stack.take(DEPTH_MAX) {
            at = at.calls.entry(name.to_owned()).or_default();
            at.samples += 1;
        }
    }

    /// How many samples there are.
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    fn depth(&self) -> usize {
        let below = self.calls.values().map(Self::depth).max();
        below.map_or(0, |below| below + 1)
    }

    /// The picture. All text is escaped.
    pub fn to_svg(&self, title: &str) -> String {
        let height = TITLE + ROW * (self.depth() as f64 + 1.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
             <style>rect:hover {{ stroke: black; }}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fffdf7\"/>\n\
             <text x=\"8\" y=\"19\" font-size=\"14\">{}</text>\n",
            escape(title)
        );
        self.draw(0.0, height - ROW, self.samples.max(1), &mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    /// Draws what was called from here, from `x` on, in the row whose top is `y`.
    fn draw(&self, mut x: f64, y: f64, all: u64, svg: &mut String) {
        for (name, call) in &self.calls {
            let width = WIDTH * call.samples as f64 / all as f64;
            if width >= BOX_MIN {
                let percent = call.samples as f64 * 100.0 / all as f64;
                let [red, green, blue] = colour(name);
                write!(
                    svg,
                    "<g><title>{name}: {percent:.1} %, {} samples</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                     height=\"{:.1}\" fill=\"rgb({red},{green},{blue})\"/>",
                    call.samples,
                    ROW - 1.0,
                    name = escape(name),
                )
                .expect("writing to a String cannot fail");
                #[allow(clippy::cast_sign_loss)] // A width.
                let letters = (width / LETTER) as usize;
                if letters > 3 {
                    let shown: String = name.chars().take(letters).collect();
                    write!(
                        svg,
                        "<text x=\"{:.1}\" y=\"{:.1}\" pointer-events=\"none\">{}</text>",
                        x + 2.0,
                        y + ROW - 5.0,
                        escape(&shown)
                    )
                    .expect("writing to a String cannot fail");
                }
                svg.push_str("</g>\n");
                call.draw(x, y - ROW, all, svg);
            }
            x += width;
        }
    }

    /// The functions in which most of the time was spent, without what they called: part of all, and name.
    pub fn hottest(&self, count: usize) -> Vec<(f64, String)> {
        let mut own: BTreeMap<&str, u64> = BTreeMap::new();
        self.collect_own(&mut own);
        let mut own: Vec<_> = own.into_iter().collect();
        own.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        let all = self.samples.max(1) as f64;
        own.into_iter()
            .take(count)
            .filter(|(_, samples)| *samples > 0)
            .map(|(name, samples)| (samples as f64 / all, name.to_owned()))
            .collect()
    }

    fn collect_own<'f>(&'f self, own: &mut BTreeMap<&'f str, u64>) {
        for (name, call) in &self.calls {
            let called: u64 = call.calls.values().map(|call| call.samples).sum();
            *own.entry(name).or_default() += call.samples.saturating_sub(called);
            call.collect_own(own);
        }
    }
}

/// The same name has the same colour in every picture; what belongs to Hedgerow is green, the kernel and libraries are warm.
fn colour(name: &str) -> [u8; 3] {
    let hash = name.bytes().fold(7_u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    let shade = (hash % 50) as u8;
    if name.contains("hedgerow") {
        [120 + shade, 200, 110 + shade]
    } else {
        [225, 140 + shade, 60 + shade]
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
tokio-rt-worker 
\t    55d1 hedgerow_store::record::encode_record
\t    55d0 hedgerow_server::publish::handler
\t    7f00 start_thread

tokio-rt-worker 
\t    55d2 <alloc::vec::Vec<T> as Clone>::clone
\t    55d0 hedgerow_server::publish::handler
\t    7f00 start_thread

hedgerow-commit 
\tffffffff81 [unknown]
";

    #[test]
    fn stacks_are_counted_from_the_thread_inwards() {
        let root = Frame::read(SCRIPT);
        assert_eq!((root.samples(), root.depth()), (3, 4));
        let worker = &root.calls["tokio-rt-worker"];
        assert_eq!(worker.samples, 2);
        let handler = &worker.calls["start_thread"].calls["hedgerow_server::publish::handler"];
        assert_eq!((handler.samples, handler.calls.len()), (2, 2));
        assert_eq!(root.calls["hedgerow-commit"].calls["[unknown]"].samples, 1);
        let hottest = root.hottest(9);
        assert_eq!(hottest.len(), 3, "{hottest:?}");
        assert!((hottest[0].0 - 1.0 / 3.0).abs() < 1e-9, "{hottest:?}");
        assert_eq!(Frame::read("").samples(), 0);
    }

    #[test]
    fn the_picture_is_escaped_and_has_a_box_for_each() {
        let svg = Frame::read(SCRIPT).to_svg("a < b");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains(">a &lt; b</text>"), "{svg}");
        assert!(
            svg.contains("&lt;alloc::vec::Vec&lt;T&gt; as Clone&gt;::clone: 33.3 %, 1 samples")
        );
        assert_eq!(svg.matches("<g>").count(), 7, "{svg}");
        assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
    }
}
