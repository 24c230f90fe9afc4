//! Reads Rust text just far enough for the rules: which part of a line is code, which is comment, what is in test
//! modules, and what `use` brings in. The text in string and character literals is in neither part.
//!
//! It is no parser: text that rustc refuses may be misread.

/// One line of Rust.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Counts from 1.
    pub number: usize,
    /// All of it.
    pub raw: String,
    /// Its code. Of a literal only the quotes are left.
    pub code: String,
    /// The text of its comments.
    pub comment: String,
    /// Whether it belongs to an item under `#[cfg(test)]`.
    pub is_test: bool,
}

/// The lines of a file.
pub fn lines(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = text
        .lines()
        .enumerate()
        .map(|(index, raw)| Line {
            number: index + 1,
            raw: raw.to_owned(),
            ..Line::default()
        })
        .collect();
    let mut scanner = Scanner {
        state: State::Code,
        block_depth: 0,
        raw_hashes: 0,
    };
    for line in &mut lines {
        scanner.line(line);
    }
    mark_tests(&mut lines);
    lines
}

/// Where `word` stands in `text` with no letter, digit or `_` on either side, as byte offsets.
pub fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let before = text[..at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            // A pattern that begins or ends with a sign of its own (`.elapsed(`) needs no edge there.
            let edge = |own: Option<char>, other: Option<char>| {
                !(own.is_some_and(is_word_char) && other.is_some_and(is_word_char))
            };
            edge(word.chars().next(), before) && edge(word.chars().next_back(), after)
        })
}

/// Whether `word` stands in `text`, as [`words`] finds it.
pub fn has_word(text: &str, word: &str) -> bool {
    words(text, word).next().is_some()
}

/// What the file's `use` items bring in, as full paths, each with the number of the line on which its item begins.
/// `use a::{b, c::{self, d as e}}` gives `a::b`, `a::c`, `a::c::d as e`.
pub fn uses<'a>(lines: impl Iterator<Item = &'a Line>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in lines {
        let code = line.code.trim();
        if open.is_none() {
            let at = words(code, "use").next();
            let is_item = at.is_some_and(|at| at == 0 || code.starts_with("pub"));
            let Some(at) = at.filter(|_| is_item) else {
                continue;
            };
            open = Some((line.number, code[at + 3..].trim().to_owned()));
        } else if let Some((_, item)) = &mut open {
            item.push(' ');
            item.push_str(code);
        }
        if let Some((number, item)) = open.take_if(|(_, item)| item.contains(';')) {
            let item = item.split(';').next().unwrap_or_default();
            expand("", item, &mut |path| found.push((number, path)));
        }
    }
    found
}

fn expand(prefix: &str, item: &str, found: &mut dyn FnMut(String)) {
    let item = item.trim();
    let Some((head, rest)) = item.split_once('{') else {
        let path = format!("{prefix}{item}");
        if !item.is_empty() {
            found(path.strip_suffix("::self").unwrap_or(&path).to_owned());
        }
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, sign) in inner.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&prefix, &inner[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &inner[start..], found);
}

fn is_word_char(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    BlockComment,
    Text,
    RawText,
}

/// Goes through a file line by line; the state is what one line leaves to the next.
struct Scanner {
    state: State,
    block_depth: usize,
    raw_hashes: usize,
}

impl Scanner {
    fn line(&mut self, line: &mut Line) {
        let raw: Vec<char> = line.raw.chars().collect();
        let mut at = 0;
        while at < raw.len() {
            at = match self.state {
                State::Code => self.code(&raw, at, line),
                State::BlockComment => self.block_comment(&raw, at, line),
                State::Text => self.text(&raw, at, line),
                State::RawText => self.raw_text(&raw, at, line),
            };
        }
    }

    fn code(&mut self, raw: &[char], at: usize, line: &mut Line) -> usize {
        let rest = &raw[at..];
        match rest {
            ['/', '/', ..] => {
                line.comment.extend(rest);
                return raw.len();
            }
            ['/', '*', ..] => {
                self.state = State::BlockComment;
                self.block_depth = 1;
                return at + 2;
            }
            ['"', ..] => {
                line.code.push('"');
                self.state = State::Text;
                return at + 1;
            }
            ['\'', ..] => {
                if let Some(length) = character_length(rest) {
                    line.code.push_str("''");
                    return at + length;
                }
            }
            ['r', ..] if starts_raw_text(rest) && !follows_name(&line.code) => {
                self.raw_hashes = rest[1..].iter().take_while(|&&sign| sign == '#').count();
                line.code.push('"');
                self.state = State::RawText;
                return at + self.raw_hashes + 2;
            }
            _ => {}
        }
        line.code.push(raw[at]);
        at + 1
    }

    fn block_comment(&mut self, raw: &[char], at: usize, line: &mut Line) -> usize {
        match &raw[at..] {
            ['/', '*', ..] => self.block_depth += 1,
            ['*', '/', ..] => {
                self.block_depth -= 1;
                if self.block_depth == 0 {
                    self.state = State::Code;
                }
            }
            _ => {
                line.comment.push(raw[at]);
                return at + 1;
            }
        }
        at + 2
    }

    fn text(&mut self, raw: &[char], at: usize, line: &mut Line) -> usize {
        match raw[at] {
            '\\' => return at + 2,
            '"' => {
                line.code.push('"');
                self.state = State::Code;
            }
            _ => {}
        }
        at + 1
    }

    fn raw_text(&mut self, raw: &[char], at: usize, line: &mut Line) -> usize {
        let end = at + 1 + self.raw_hashes;
        let is_end = raw[at] == '"'
            && raw
                .get(at + 1..end)
                .is_some_and(|hashes| hashes.iter().all(|&sign| sign == '#'));
        if !is_end {
            return at + 1;
        }
        line.code.push('"');
        self.state = State::Code;
        end
    }
}

/// The length of the character literal at the start of `rest`; `None` for a lifetime.
fn character_length(rest: &[char]) -> Option<usize> {
    match rest {
        ['\'', '\\', _, tail @ ..] => Some(4 + tail.iter().position(|&sign| sign == '\'')?),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

fn starts_raw_text(rest: &[char]) -> bool {
    rest[1..].iter().find(|&&sign| sign != '#') == Some(&'"')
}

/// Whether what comes next would go on with a name. The prefixes `b` and `c` of literals are no names.
fn follows_name(code: &str) -> bool {
    let name_length = code
        .chars()
        .rev()
        .take_while(|&sign| is_word_char(sign))
        .count();
    name_length > 0 && !(name_length == 1 && (code.ends_with('b') || code.ends_with('c')))
}

/// Marks the items that stand under `#[cfg(test)]`: up to the closing bracket of the item's body, or its semicolon.
fn mark_tests(lines: &mut [Line]) {
    let mut index = 0;
    while index < lines.len() {
        if lines[index].code.replace(' ', "").contains("#[cfg(test)]") {
            let end = end_of_item(lines, index);
            for line in &mut lines[index..=end] {
                line.is_test = true;
            }
            index = end;
        }
        index += 1;
    }
}

fn end_of_item(lines: &[Line], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut has_body = false;
    for (index, line) in lines.iter().enumerate().skip(start) {
        for sign in line.code.chars() {
            match sign {
                '{' => {
                    depth += 1;
                    has_body = true;
                }
                '}' => depth = depth.saturating_sub(1),
                ';' if depth == 0 => return index,
                _ => {}
            }
        }
        if has_body && depth == 0 {
            return index;
        }
    }
    lines.len() - 1
}

#[cfg(test)]
mod tests {
    use super::{Line, has_word, lines, uses};

    fn code(text: &str) -> Vec<String> {
        lines(text)
            .into_iter()
            .map(|line| line.code.trim().to_owned())
            .collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(code("let a = \"b // c\"; // d"), ["let a = \"\";"]);
        assert_eq!(code("a /* b /* c\n d */ e */ f"), ["a", "f"]);
        assert_eq!(code("let a = r#\"b\" c\n\"#; d"), ["let a = \"", "\"; d"]);
        assert_eq!(
            code("f(br\"a\", b\"c\\\"d\", 'e', '\\'', '\"', '\\u{1F600}') g"),
            ["f(b\"\", b\"\", '', '', '', '') g"]
        );
        assert_eq!(
            code("fn a<'b>(c: &'b str) -> &'b str"),
            ["fn a<'b>(c: &'b str) -> &'b str"]
        );
        assert_eq!(
            code("let mirror = r\"x\" ; r#type"),
            ["let mirror = \"\" ; r#type"]
        );
        assert_eq!(lines("a // b\n/* c */ d")[0].comment, "// b");
        assert_eq!(lines("a // b\n/* c */ d")[1].comment, " c ");
    }

    #[test]
    fn items_under_cfg_test_are_marked() {
        let text =
            "a\n#[cfg(test)]\nmod tests {\n  fn b() { \"}\" }\n}\nc\n#[cfg(test)]\nuse d;\ne";
        let tests: Vec<usize> = lines(text)
            .iter()
            .filter(|line| line.is_test)
            .map(|line| line.number)
            .collect();
        assert_eq!(tests, [2, 3, 4, 5, 7, 8]);
    }

    #[test]
    fn words_have_edges() {
        assert!(has_word("unsafe {", "unsafe") && has_word("(unsafe)", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe") && !has_word("not_unsafe", "unsafe"));
        assert!(has_word("start.elapsed()", ".elapsed("));
        assert!(has_word("x = std::time::Instant::now();", "Instant::now"));
        assert!(!has_word("MyInstant::now()", "Instant::now"));
    }

    #[test]
    fn use_items_are_spelled_out() {
        let text = "use a::b;\npub(crate) use c::{\n  d,\n  e::{self, f as g},\n};\nfn use_it() {}";
        let lines: Vec<Line> = lines(text);
        let found: Vec<(usize, String)> = uses(lines.iter());
        let expected = [(1, "a::b"), (2, "c::d"), (2, "c::e"), (2, "c::e::f as g")];
        assert_eq!(found, expected.map(|(line, path)| (line, path.to_owned())));
    }
}
