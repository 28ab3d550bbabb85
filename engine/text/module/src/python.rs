//! Values as Python writes them, for templates that were written for Python: `str()` of what is printed, and
//! `json.dumps()`.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// Appends str(value).
pub fn append_str(out: &mut String, value: &Value) {
    match value.kind() {
        ValueKind::String => out.push_str(value.as_str().unwrap_or_default()),
        ValueKind::Undefined => {}
        _ => append_repr(out, value),
    }
}

/// The filter `string`: str(value).
pub fn string(value: &Value) -> String {
    let mut out = String::new();
    append_str(&mut out, value);
    out
}

/// The filter `trim`: str(value).strip(characters).
pub fn trim(value: &Value, characters: Option<&str>) -> String {
    let text = string(value);
    match characters {
        Some(set) => text.trim_matches(|c| set.contains(c)).to_owned(),
        None => text.trim().to_owned(),
    }
}

/// The test `iterable`: texts are, None is not.
pub fn is_iterable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
}

/// Appends repr(value).
fn append_repr(out: &mut String, value: &Value) {
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => append_number(out, value),
        ValueKind::String => append_quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq => append_list(out, value),
        ValueKind::Map => append_dict(out, value),
        _ => out.push_str(&value.to_string()),
    }
}

fn append_list(out: &mut String, value: &Value) {
    out.push('[');
    for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        append_repr(out, &item);
    }
    out.push(']');
}

fn append_dict(out: &mut String, value: &Value) {
    out.push('{');
    for (i, key) in value.try_iter().into_iter().flatten().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        append_repr(out, &key);
        out.push_str(": ");
        append_repr(out, &value.get_item(&key).unwrap_or_default());
    }
    out.push('}');
}

/// A text in single quotes, or in double ones if it has single ones alone.
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
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// Integers as they are; floats with the fewest digits that give them back.
fn append_number(out: &mut String, value: &Value) {
    let plain = value.to_string();
    let float = f64::try_from(value.clone());
    match float {
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

/// The filter `tojson` of chat templates: json.dumps(value, ensure_ascii=False, indent=None, ...).
pub fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
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
        out: String::new(),
    };
    json.append(value, 1)?;
    Ok(Value::from_safe_string(json.out))
}

struct Json {
    item: String,
    key: String,
    indent: Option<String>,
    ascii: bool,
    sort_keys: bool,
    out: String,
}

impl Json {
    fn append(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => append_number(&mut self.out, value),
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
        self.out.push('[');
        let mut count = 0;
        for item in value.try_iter()? {
            self.begin_item(count, depth);
            self.append(&item, depth + 1)?;
            count += 1;
        }
        self.end_items(count, depth);
        self.out.push(']');
        Ok(())
    }

    fn append_map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        self.out.push('{');
        for (i, key) in keys.iter().enumerate() {
            self.begin_item(i, depth);
            match key.as_str() {
                Some(name) => self.append_text(name),
                None => {
                    let mut name = String::new();
                    append_str(&mut name, key);
                    self.append_text(&name);
                }
            }
            self.out.push_str(&self.key.clone());
            self.append(&value.get_item(key)?, depth + 1)?;
        }
        self.end_items(keys.len(), depth);
        self.out.push('}');
        Ok(())
    }

    fn begin_item(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.out.push_str(&self.item);
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
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn append_text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}
