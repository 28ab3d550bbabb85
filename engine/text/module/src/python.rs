//! Python values: writes values as Python does, because templates were written for Python: `str()` and
//! `json.dumps()`.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::limits;

/// Implements Python's str(value). Consumes the steps that writing it takes.
pub fn str_of(state: &State, value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let mut writer = Writer::new(state);
    if !value.is_undefined() {
        writer.repr(value, DEPTH)?;
    }
    writer.finish(state)
}

/// Implements the test `iterable`: also true for texts and undefined values, and false for None.
pub fn is_iterable(value: &Value) -> bool {
    let kind = value.kind();
    matches!(
        kind,
        ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Undefined
    )
}

/// Maximum levels of a value that is written. Named values have fewer (limits.rs); an expression adds some.
const DEPTH: usize = 1000;
/// Factor for each written byte, because walking a value is slower than copying a text.
const WRITTEN: usize = 16;

fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a value of more than {DEPTH} levels cannot be written"))
}

/// Writes values while steps remain.
struct Writer {
    out: String,
    most: usize,
}

impl Writer {
    fn new(state: &State) -> Self {
        Writer { out: String::new(), most: limits::bytes_left(state) / WRITTEN }
    }

    fn finish(self, state: &State) -> Result<String, Error> {
        state.consume_fuel((self.out.len() * WRITTEN) as u64 / limits::BYTES_PER_STEP)?;
        Ok(self.out)
    }

    fn check(&self) -> Result<(), Error> {
        if self.out.len() > self.most {
            return Err(Error::from(ErrorKind::OutOfFuel));
        }
        Ok(())
    }

    /// Appends repr(value).
    fn repr(&mut self, value: &Value, levels: usize) -> Result<(), Error> {
        self.check()?;
        let inner = levels.checked_sub(1).ok_or_else(too_deep)?;
        match value.kind() {
            ValueKind::None => self.out.push_str("None"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "True" } else { "False" }),
            ValueKind::Number => append_number(&mut self.out, value),
            ValueKind::String => append_quoted(&mut self.out, value.as_str().unwrap_or_default()),
            ValueKind::Seq if value.is_tuple() => self.tuple(value, inner)?,
            ValueKind::Seq | ValueKind::Iterable => {
                self.out.push('[');
                self.items(value, inner)?;
                self.out.push(']');
            }
            ValueKind::Map => self.dict(value, inner)?,
            ValueKind::Undefined => self.out.push_str("Undefined"),
            _ => self.out.push_str(&value.to_string()),
        }
        Ok(())
    }

    fn items(&mut self, value: &Value, levels: usize) -> Result<usize, Error> {
        let mut count = 0;
        for item in value.try_iter()?.checked() {
            self.out.push_str(if count > 0 { ", " } else { "" });
            self.repr(&item?, levels)?;
            count += 1;
        }
        Ok(count)
    }

    fn tuple(&mut self, value: &Value, levels: usize) -> Result<(), Error> {
        self.out.push('(');
        if self.items(value, levels)? == 1 {
            self.out.push(',');
        }
        self.out.push(')');
        Ok(())
    }

    fn dict(&mut self, value: &Value, levels: usize) -> Result<(), Error> {
        self.out.push('{');
        for (i, key) in value.try_iter()?.checked().enumerate() {
            let key = key?;
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.repr(&key, levels)?;
            self.out.push_str(": ");
            self.repr(&value.get_item(&key).unwrap_or_default(), levels)?;
        }
        self.out.push('}');
        Ok(())
    }
}

/// Appends a text in single quotes, or in double quotes if it contains single quotes but no double quotes.
fn append_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let _ = match c as u32 {
                    code @ ..=0xff => write!(out, "\\x{code:02x}"),
                    code @ ..=0xffff => write!(out, "\\u{code:04x}"),
                    code => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// Implements Python's str.isprintable() for a character. Rust's escape_debug has the same rule, except for a
/// mark that begins a text.
/// begins a text.
pub fn is_printable(c: char) -> bool {
    let mut text = [0; 5];
    text[0] = b'a';
    let end = 1 + c.encode_utf8(&mut text[1..]).len();
    std::str::from_utf8(&text[..end]).is_ok_and(|text| text.escape_debug().count() == 2)
        || matches!(c, '"' | '\'')
}

/// Appends integers unchanged, and floats with the fewest digits that restore them.
fn append_number(out: &mut String, value: &Value) {
    let plain = value.to_string();
    let float = f64::try_from(value.clone());
    match float {
        Ok(x) if x.is_nan() => out.push_str("nan"),
        Ok(x) if !value.is_integer() && x.is_finite() && x != 0.0 && !(1e-4..1e16).contains(&x.abs()) => {
            let text = format!("{x:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, size) = match exponent.strip_prefix('-') {
                Some(size) => ('-', size),
                None => ('+', exponent),
            };
            let _ = write!(out, "{digits}e{sign}{size:0>2}");
        }
        _ => out.push_str(&plain),
    }
}

/// Implements `tojson` of chat templates: json.dumps(value, ensure_ascii=False, indent=None, ...).
pub fn tojson(state: &State, value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<Value> = options.get("indent")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    options.assert_all_used()?;
    let indent = match indent {
        None => None,
        Some(width) if width.is_none() => None,
        Some(width) => match width.as_str() {
            Some(text) => Some(text.to_owned()),
            None => Some(" ".repeat(usize::try_from(width).unwrap_or(0).min(64))),
        },
    };
    let default = if indent.is_some() { [",", ": "] } else { [", ", ": "] };
    let mut separators = separators.unwrap_or_default().into_iter();
    let mut json = Json {
        item: separators.next().unwrap_or(default[0].to_owned()),
        key: separators.next().unwrap_or(default[1].to_owned()),
        indent,
        ascii: ascii.unwrap_or(false),
        sort_keys: sort_keys.unwrap_or(false),
        writer: Writer::new(state),
    };
    json.append(value, 1)?;
    Ok(Value::from_safe_string(json.writer.finish(state)?))
}

struct Json {
    item: String,
    key: String,
    indent: Option<String>,
    ascii: bool,
    sort_keys: bool,
    writer: Writer,
}

impl Json {
    fn append(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.writer.check()?;
        if depth > DEPTH {
            return Err(too_deep());
        }
        match value.kind() {
            ValueKind::None => self.writer.out.push_str("null"),
            ValueKind::Bool => self.writer.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => append_number(&mut self.writer.out, value),
            ValueKind::String => self.append_text(value.as_str().unwrap_or_default()),
            ValueKind::Map => self.append_map(value, depth)?,
            ValueKind::Seq | ValueKind::Iterable => self.append_list(value, depth)?,
            kind => {
                let reason = format!("{kind} has no form in JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, reason));
            }
        }
        Ok(())
    }

    fn append_list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.writer.out.push('[');
        let mut count = 0;
        for item in value.try_iter()?.checked() {
            let item = item?;
            self.begin_item(count, depth);
            self.append(&item, depth + 1)?;
            count += 1;
        }
        self.end_items(count, depth);
        self.writer.out.push(']');
        Ok(())
    }

    fn append_map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.checked().collect::<Result<_, _>>()?;
        if self.sort_keys {
            keys.sort();
        }
        self.writer.out.push('{');
        for (i, key) in keys.iter().enumerate() {
            self.begin_item(i, depth);
            match key.as_str() {
                Some(name) => self.append_text(name),
                None => {
                    let mut name = Writer { out: String::new(), most: self.writer.most };
                    match key.kind() {
                        ValueKind::Bool => name.out.push_str(if key.is_true() { "true" } else { "false" }),
                        ValueKind::None => name.out.push_str("null"),
                        ValueKind::Number => append_number(&mut name.out, key),
                        kind => {
                            let reason = format!("{kind} cannot be a key in JSON");
                            return Err(Error::new(ErrorKind::InvalidOperation, reason));
                        }
                    }
                    self.append_text(&name.out);
                }
            }
            self.writer.out.push_str(&self.key.clone());
            self.append(&value.get_item(key)?, depth + 1)?;
        }
        self.end_items(keys.len(), depth);
        self.writer.out.push('}');
        Ok(())
    }

    fn begin_item(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.writer.out.push_str(&self.item);
        }
        self.new_line(depth);
    }

    fn end_items(&mut self, count: usize, depth: usize) {
        if count > 0 {
            self.new_line(depth - 1);
        }
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.writer.out.push('\n');
            self.writer.out.push_str(&indent.repeat(depth));
        }
    }

    fn append_text(&mut self, text: &str) {
        self.writer.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.writer.out.push_str("\\\""),
                '\\' => self.writer.out.push_str("\\\\"),
                '\n' => self.writer.out.push_str("\\n"),
                '\r' => self.writer.out.push_str("\\r"),
                '\t' => self.writer.out.push_str("\\t"),
                '\u{8}' => self.writer.out.push_str("\\b"),
                '\u{c}' => self.writer.out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.writer.out, "\\u{unit:04x}");
                    }
                }
                c => self.writer.out.push(c),
            }
        }
        self.writer.out.push('"');
    }
}
