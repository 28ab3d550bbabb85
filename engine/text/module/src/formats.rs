//! Formats: Python's `text % values` and `text.format(...)`, with bounds on the length of the result.

use minijinja::formatting::{format, FormatStyle};
use minijinja::value::{Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::{limits, python};

fn refusal(reason: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// a % b: formats if `a` is a text, and divides if both are numbers.
pub fn remainder(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    match (a.as_str(), a.kind(), b.kind()) {
        (Some(text), _, _) => printf(state, text, b).map(Value::from),
        (_, ValueKind::Number | ValueKind::Bool, ValueKind::Number | ValueKind::Bool) => remainder_of(a, b),
        (_, a, b) => Err(refusal(format!("tried to use % operator on unsupported types {a} and {b}"))),
    }
}

fn remainder_of(a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Ok(x), Ok(y)) = (i64::try_from(a.clone()), i64::try_from(b.clone())) {
        if a.kind() == ValueKind::Bool || a.is_integer() && (b.kind() == ValueKind::Bool || b.is_integer()) {
            if y == 0 {
                return Err(refusal("division by zero".to_owned()));
            }
            return Ok(Value::from((i128::from(x) % i128::from(y) + i128::from(y)) % i128::from(y)));
        }
    }
    let float = |value: &Value| f64::try_from(value.clone());
    let (x, y) = (float(a)?, float(b)?);
    if y == 0.0 {
        return Err(refusal("division by zero".to_owned()));
    }
    let rest = x % y;
    Ok(Value::from(if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }))
}

/// Fails unless the remaining steps pay for the format's text and widths. Only values can make the result
/// longer than these.
fn ensure_widths(state: &State, text: &str) -> Result<(), Error> {
    let (mut all, mut number) = (text.len(), 0usize);
    for c in text.chars().chain([' ']) {
        match c.to_digit(10) {
            Some(digit) => number = number.saturating_mul(10).saturating_add(digit as usize),
            None => {
                all = all.saturating_add(number.saturating_mul(4));
                number = 0;
            }
        }
    }
    limits::ensure_bytes(state, all)
}

/// Converts a value to the form that a format prints: numbers and texts stay, other values become their
/// str().
fn shown(state: &State, value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Number | ValueKind::String | ValueKind::Bool => Ok(value.clone()),
        _ => Ok(Value::from(python::str_of(state, value)?)),
    }
}

/// Fails unless the remaining steps pay for the format if each field prints the longest text that it can
/// reach.
fn ensure_values(state: &State, text: &str, values: &[Value]) -> Result<(), Error> {
    let mut longest = 0;
    for value in values {
        longest = longest.max(longest_text(state, value, 8)?);
    }
    limits::ensure_bytes(state, (text.len() / 2).saturating_mul(longest))
}

fn longest_text(state: &State, value: &Value, levels: usize) -> Result<usize, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.len());
    }
    let (Some(object), true) = (value.as_object(), levels > 0) else { return Ok(0) };
    let mut longest = 0;
    for (_, item) in object.try_iter_pairs().into_iter().flatten() {
        state.consume_fuel(1)?;
        longest = longest.max(longest_text(state, &item, levels - 1)?);
    }
    Ok(longest)
}

/// Implements Python's text % values.
pub fn printf(state: &State, text: &str, values: &Value) -> Result<String, Error> {
    ensure_widths(state, text)?;
    let mut specs = text.split('%').skip(1);
    if specs.any(|spec| spec.trim_start_matches(|c: char| "#0- +".contains(c)).starts_with('*')) {
        return Err(refusal("a width of * in a format is not supported".to_owned()));
    }
    let mut given = Vec::new();
    match values.downcast_object_ref::<Tuple>() {
        Some(values) => {
            for value in values.iter() {
                given.push(shown(state, value)?);
            }
        }
        None if values.kind() == ValueKind::Map && text.contains("%(") => given.push(values.clone()),
        None => given.push(shown(state, values)?),
    }
    if values.kind() != ValueKind::Map && given.len() > fields(text) {
        return Err(refusal("not all arguments converted during string formatting".to_owned()));
    }
    ensure_values(state, text, &given)?;
    format(FormatStyle::Printf, text, &given)
}

/// Counts the values that a printf format takes.
fn fields(text: &str) -> usize {
    let (mut count, mut begun) = (0, false);
    for c in text.chars() {
        begun = c == '%' && !begun;
        count += usize::from(begun);
        if c == '%' && !begun {
            count -= 1; // %% is a percent sign
        }
    }
    count
}

/// Implements Python's text.format(...).
pub fn str_format(state: &State, text: &str, values: &[Value]) -> Result<String, Error> {
    ensure_widths(state, text)?;
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        let doubled = text[i + 1..].starts_with(c) || i > 0 && text[..i].ends_with(c);
        match c {
            '{' if depth > 0 => {
                return Err(refusal("a field inside a field of a format is not supported".to_owned()))
            }
            '{' if !doubled => depth += 1,
            '}' if depth > 0 => depth -= 1,
            _ => {}
        }
    }
    let mut given = Vec::new();
    for value in values {
        let composite = !value.is_kwargs() && matches!(value.kind(), ValueKind::Seq | ValueKind::Map);
        // A field may read an item of a list or a map: {0[name]}.
        given.push(match composite && (text.contains('[') || text.contains('.')) {
            true => value.clone(),
            false if value.is_kwargs() => shown_kwargs(state, value)?,
            false => shown(state, value)?,
        });
    }
    ensure_values(state, text, &given)?;
    format(FormatStyle::StrFormat, text, &given)
}

fn shown_kwargs(state: &State, kwargs: &Value) -> Result<Value, Error> {
    let mut shown_pairs = Vec::new();
    for key in kwargs.try_iter()?.checked() {
        let key = key?;
        let value = kwargs.get_item(&key)?;
        let name = key.as_str().unwrap_or_default().to_owned();
        let composite = matches!(value.kind(), ValueKind::Seq | ValueKind::Map);
        shown_pairs.push((name, if composite { value } else { shown(state, &value)? }));
    }
    Ok(shown_pairs.into_iter().collect::<Kwargs>().into())
}
