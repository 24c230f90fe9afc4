//! What the places of a text can be read as, by whoever undoes escapes: of URLs (`%2F`, `+`), of JSON and programs (`\/`,
//! `\u002f`, `\x2f`, `\057`), of pages (`&#47;`, `&#x2f;`, `&sol;`), and any of these spelled with others.

/// Escapes of escapes that are undone. Whoever repeats a text escapes it once or twice.
const LAYERS_MAX: usize = 5;
/// Ways to read one place that are looked at. There are as many as layers, and a few more in texts made for it.
const READINGS_MAX: usize = 16;
/// Digits of a number in an escape that are read, leading zeros included.
const DIGITS_MAX: usize = 16;

/// Names of characters in pages. Letters and digits have none, and what a URL cannot hold is not asked for.
const ENTITIES: [(&str, char); 41] = [
    ("amp", '&'),
    ("AMP", '&'),
    ("lt", '<'),
    ("LT", '<'),
    ("gt", '>'),
    ("GT", '>'),
    ("quot", '"'),
    ("QUOT", '"'),
    ("apos", '\''),
    ("equals", '='),
    ("plus", '+'),
    ("percnt", '%'),
    ("sol", '/'),
    ("bsol", '\\'),
    ("num", '#'),
    ("quest", '?'),
    ("period", '.'),
    ("comma", ','),
    ("colon", ':'),
    ("semi", ';'),
    ("excl", '!'),
    ("dollar", '$'),
    ("lpar", '('),
    ("rpar", ')'),
    ("ast", '*'),
    ("midast", '*'),
    ("commat", '@'),
    ("lsqb", '['),
    ("lbrack", '['),
    ("rsqb", ']'),
    ("rbrack", ']'),
    ("lcub", '{'),
    ("lbrace", '{'),
    ("rcub", '}'),
    ("rbrace", '}'),
    ("lowbar", '_'),
    ("UnderBar", '_'),
    ("grave", '`'),
    ("verbar", '|'),
    ("vert", '|'),
    ("Hat", '^'),
];
/// The longest of these names.
const ENTITY_CHARS_MAX: usize = 8;

/// A character, and the place behind what was read as it.
type Reading = (char, usize);

/// A text, and what its places can be read as. A place is a character of it, counted from 0.
pub(super) struct Readings {
    /// Each character and the byte at which it begins.
    chars: Vec<(usize, char)>,
    text_len: usize,
    /// What else a place is than the character that stands there.
    escaped: Vec<Vec<Reading>>,
}

/// A part of a text that is read as characters of one kind.
pub(super) struct Run {
    /// How it is read.
    pub(super) text: String,
    /// Its bytes in the text.
    pub(super) range: std::ops::Range<usize>,
}

impl Readings {
    pub(super) fn of(text: &str) -> Self {
        let chars: Vec<(usize, char)> = text.char_indices().collect();
        let mut readings = Self {
            escaped: vec![Vec::new(); chars.len()],
            text_len: text.len(),
            chars,
        };
        // Every escape begins with one of these, in whatever layer.
        let places = readings.chars.iter().enumerate();
        let places = places.filter(|(_, (_, c))| matches!(c, '%' | '\\' | '&' | '+'));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        for _ in 0..LAYERS_MAX {
            let mut is_more = false;
            for place in places.iter().rev() {
                is_more |= readings.read_escapes(*place);
            }
            if !is_more {
                break;
            }
        }
        readings
    }

    pub(super) fn len(&self) -> usize {
        self.chars.len()
    }

    pub(super) const fn text_len(&self) -> usize {
        self.text_len
    }

    /// The byte at which a place begins.
    pub(super) fn offset(&self, place: usize) -> usize {
        self.chars
            .get(place)
            .map_or(self.text_len, |(offset, _)| *offset)
    }

    /// Calls `visit` for every character that a place can be read as, with the place behind it.
    pub(super) fn each(&self, place: usize, mut visit: impl FnMut(char, usize)) {
        if let Some((_, c)) = self.chars.get(place) {
            visit(*c, place + 1);
            for (c, end) in &self.escaped[place] {
                visit(*c, *end);
            }
        }
    }

    /// Whether the text ends here, but for an escape or a character of so many characters that its end cut off.
    pub(super) fn ends_within(&self, place: usize, chars_max: usize) -> bool {
        let rest = &self.chars[place..];
        match rest.first() {
            None => true,
            Some((_, char::REPLACEMENT_CHARACTER)) => {
                rest.iter().all(|(_, c)| *c == char::REPLACEMENT_CHARACTER)
            }
            Some((_, '%' | '\\' | '&')) => rest.len() < chars_max,
            Some(_) => false,
        }
    }

    /// The longest parts whose characters are of a kind, each escape read to its last layer. Ends of lines may stand between
    /// them.
    pub(super) fn runs(&self, is_of_kind: impl Fn(char) -> bool) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut place = 0;
        let mut is_in_run = false;
        while place < self.len() {
            let mut read = (self.chars[place].1, place + 1);
            // A plus sign is one here.
            let escaped = self.escaped[place].iter().filter(|(c, _)| *c != ' ');
            for escaped in escaped {
                if escaped.1 > read.1 {
                    read = *escaped;
                }
            }
            let (c, end) = read;
            let is_one = is_of_kind(c);
            if is_one && !is_in_run {
                let start = self.offset(place);
                runs.push(Run {
                    text: String::new(),
                    range: start..start,
                });
            }
            if is_one && let Some(run) = runs.last_mut() {
                run.text.push(c);
                run.range.end = self.offset(end);
            }
            is_in_run = is_one || (is_in_run && matches!(c, '\r' | '\n'));
            place = end;
        }
        runs
    }

    /// Adds what the escapes at a place say, of which the characters may be escaped in turn. Returns whether it is new.
    fn read_escapes(&mut self, place: usize) -> bool {
        let mut found = Vec::new();
        self.each(place, |c, next| match c {
            '%' => self.read_percent(next, &mut found),
            '\\' => self.read_backslash(next, &mut found),
            '&' => self.read_entity(next, &mut found),
            '+' => found.push((' ', next)),
            _ => {}
        });
        let known = &mut self.escaped[place];
        let known_before = known.len();
        for reading in found {
            if known.len() < READINGS_MAX && !known.contains(&reading) {
                known.push(reading);
            }
        }
        known.len() > known_before
    }

    /// Behind `%`: the bytes of a character in UTF-8, or of one in Latin-1.
    fn read_percent(&self, place: usize, found: &mut Vec<Reading>) {
        self.each_of(place, 'u', |next| self.read_unit(next, found));
        self.each_number(place, 16, 2, |byte, end| {
            let Ok(byte) = u8::try_from(byte) else {
                return;
            };
            found.push((char::from(byte), end));
            if byte >= 0xc2 {
                self.read_continuation(&mut vec![byte], end, found);
            }
        });
    }

    fn read_continuation(&self, bytes: &mut Vec<u8>, place: usize, found: &mut Vec<Reading>) {
        if bytes.len() == 4 {
            return;
        }
        self.each_of(place, '%', |next| {
            self.each_number(next, 16, 2, |byte, end| {
                let Ok(byte @ 0x80..=0xbf) = u8::try_from(byte) else {
                    return;
                };
                bytes.push(byte);
                match std::str::from_utf8(bytes) {
                    Ok(whole) => found.extend(whole.chars().map(|c| (c, end))),
                    Err(_) => self.read_continuation(bytes, end, found),
                }
                bytes.pop();
            });
        });
    }

    /// Behind a backslash.
    fn read_backslash(&self, place: usize, found: &mut Vec<Reading>) {
        self.each(place, |c, next| match c {
            'u' => {
                self.read_unit(next, found);
                self.each_of(next, '{', |next| {
                    self.each_run(next, 16, &mut |number, end| {
                        self.each_of(end, '}', |end| {
                            found.extend(char::from_u32(number).map(|c| (c, end)));
                        });
                    });
                });
            }
            'x' => self.each_number(next, 16, 2, |number, end| {
                found.extend(char::from_u32(number).map(|c| (c, end)));
            }),
            // Three octal digits.
            '0'..='3' => self.each_number(place, 8, 3, |number, end| {
                found.extend(char::from_u32(number).map(|c| (c, end)));
            }),
            'n' => found.push(('\n', next)),
            'r' => found.push(('\r', next)),
            't' => found.push(('\t', next)),
            'b' => found.push(('\u{8}', next)),
            'f' => found.push(('\u{c}', next)),
            c if !c.is_alphanumeric() => found.push((c, next)),
            _ => {}
        });
    }

    /// Behind `\u` or `%u`: a unit of UTF-16, or two.
    fn read_unit(&self, place: usize, found: &mut Vec<Reading>) {
        self.each_number(place, 16, 4, |unit, end| match char::from_u32(unit) {
            Some(c) => found.push((c, end)),
            None => self.read_low_surrogate(unit, end, found),
        });
    }

    fn read_low_surrogate(&self, high: u32, place: usize, found: &mut Vec<Reading>) {
        self.each_of(place, '\\', |next| {
            self.each_of(next, 'u', |next| {
                self.each_number(next, 16, 4, |low, end| {
                    if (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low) {
                        let number = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        found.extend(char::from_u32(number).map(|c| (c, end)));
                    }
                });
            });
        });
    }

    /// Behind `&`.
    fn read_entity(&self, place: usize, found: &mut Vec<Reading>) {
        let mut number = |number, end| {
            if let Some(c) = char::from_u32(number) {
                found.push((c, self.behind_semicolon(end)));
            }
        };
        self.each_of(place, '#', |next| {
            self.each_run(next, 10, &mut number);
            self.each_of(next, 'x', |next| self.each_run(next, 16, &mut number));
            self.each_of(next, 'X', |next| self.each_run(next, 16, &mut number));
        });
        let mut name = String::new();
        self.read_name(place, &mut name, found);
    }

    fn read_name(&self, place: usize, name: &mut String, found: &mut Vec<Reading>) {
        if let Some((_, c)) = ENTITIES.iter().find(|(entity, _)| entity == name) {
            found.push((*c, self.behind_semicolon(place)));
        }
        if name.len() == ENTITY_CHARS_MAX {
            return;
        }
        self.each(place, |c, next| {
            if c.is_ascii_alphabetic() {
                name.push(c);
                self.read_name(next, name, found);
                name.pop();
            }
        });
    }

    /// A semicolon that ends an escape, which may be left out.
    fn behind_semicolon(&self, place: usize) -> usize {
        let mut end = place;
        self.each_of(place, ';', |next| end = end.max(next));
        end
    }

    /// Calls `visit` with the places behind one character.
    fn each_of(&self, place: usize, wanted: char, mut visit: impl FnMut(usize)) {
        self.each(place, |c, next| {
            if c == wanted {
                visit(next);
            }
        });
    }

    /// Calls `visit` with the number that so many digits are, and the place behind them.
    fn each_number(&self, place: usize, radix: u32, digits: usize, visit: impl FnMut(u32, usize)) {
        fn next(
            readings: &Readings,
            (number, place): (u32, usize),
            (radix, digits): (u32, usize),
            visit: &mut dyn FnMut(u32, usize),
        ) {
            if digits == 0 {
                visit(number, place);
                return;
            }
            readings.each(place, |c, end| {
                if let Some(digit) = c.to_digit(radix) {
                    next(
                        readings,
                        (number * radix + digit, end),
                        (radix, digits - 1),
                        visit,
                    );
                }
            });
        }
        let mut visit = visit;
        next(self, (0, place), (radix, digits), &mut visit);
    }

    /// Calls `visit` with the number that all digits from here on are.
    fn each_run(&self, place: usize, radix: u32, visit: &mut dyn FnMut(u32, usize)) {
        fn next(
            readings: &Readings,
            (number, place): (u32, usize),
            (radix, digits): (u32, usize),
            visit: &mut dyn FnMut(u32, usize),
        ) {
            let mut is_last = true;
            if digits < DIGITS_MAX {
                readings.each(place, |c, end| {
                    if let Some(digit) = c.to_digit(radix) {
                        is_last = false;
                        let number = number.saturating_mul(radix).saturating_add(digit);
                        next(readings, (number, end), (radix, digits + 1), visit);
                    }
                });
            }
            if is_last && digits > 0 {
                visit(number, place);
            }
        }
        next(self, (0, place), (radix, 0), visit);
    }
}
