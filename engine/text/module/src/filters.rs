//! Filters: filters, tests and functions of Jinja2 that minijinja lacks, or implements differently from what
//! chat templates expect.

use minijinja::value::{Kwargs, Rest, Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use crate::limits::ensure_bytes;
use crate::{formats, methods, python, tags};

pub fn add_to(environment: &mut Environment) {
    environment.add_filter(tags::REMAINDER, formats::remainder);
    environment.add_filter(tags::TEXT, as_text);
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("string", python::str_of);
    environment.add_filter("trim", trim);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("center", center);
    environment.add_filter("wordcount", word_count);
    environment.add_filter("capitalize", |text: &str| methods::capitalize(text));
    environment.add_filter("format", format);
    environment.add_filter("indent", indent);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    // minijinja's versions of these filters give other results than Jinja2's.
    for name in ["attr", "pprint"] {
        environment.remove_filter(name);
    }
    environment.add_test("iterable", python::is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    environment.add_function("cycler", minijinja_contrib::globals::cycler);
}

/// Converts an operand of `~` to text.
fn as_text(state: &State, value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Invalid => Ok(value),
        _ => python::str_of(state, &value).map(Value::from),
    }
}

/// Implements Python's str(value).strip(characters).
fn trim(state: &State, value: &Value, characters: Option<&str>) -> Result<Value, Error> {
    let text = python::str_of(state, value)?;
    Ok(Value::from(match characters {
        Some(set) => text.trim_matches(|c| set.contains(c)),
        None => text.trim_matches(methods::is_space),
    }))
}

fn default(value: Value, other: Option<Value>, boolean: Option<bool>, names: Kwargs) -> Result<Value, Error> {
    let named_other: Option<Value> = names.get("default_value")?;
    let named_boolean: Option<bool> = names.get("boolean")?;
    names.assert_all_used()?;
    let lacks = value.is_undefined() || boolean.or(named_boolean).unwrap_or(false) && !value.is_true();
    Ok(if lacks { other.or(named_other).unwrap_or_else(|| Value::from("")) } else { value })
}

fn replace(state: &State, value: &Value, old: &str, new: &str, most: Option<i64>) -> Result<String, Error> {
    let most = usize::try_from(most.unwrap_or(-1)).unwrap_or(usize::MAX);
    methods::replaced(state, &python::str_of(state, value)?, old, new, most)
}

/// Joins str() of each item, or of an attribute of each item.
fn join(
    state: &State,
    items: &Value,
    by: Option<&str>,
    attribute: Option<Value>,
    names: Kwargs,
) -> Result<String, Error> {
    let named_by: Option<&str> = names.get("d")?;
    let named_attribute: Option<Value> = names.get("attribute")?;
    names.assert_all_used()?;
    let (by, attribute) = (by.or(named_by).unwrap_or(""), attribute.or(named_attribute));
    let mut out = String::new();
    for (i, item) in items.try_iter()?.checked().enumerate() {
        state.consume_fuel(1)?;
        let mut item = item?;
        if let Some(attribute) = &attribute {
            for key in attribute.as_str().unwrap_or_default().split('.') {
                item = match key.parse::<usize>() {
                    Ok(index) => item.get_item_by_index(index)?,
                    Err(_) => item.get_attr(key)?,
                };
            }
        }
        let text = python::str_of(state, &item)?;
        ensure_bytes(state, out.len() + by.len() + text.len())?;
        out.push_str(if i > 0 { by } else { "" });
        out.push_str(&text);
    }
    Ok(out)
}

fn center(state: &mut State, value: &Value, width: Option<i64>) -> Result<Value, Error> {
    let text = Value::from(python::str_of(state, value)?);
    methods::call(state, &text, "center", &[Value::from(width.unwrap_or(80))])
}

/// Counts the words of letters, digits and underscores.
fn word_count(state: &State, value: &Value) -> Result<usize, Error> {
    let text = python::str_of(state, value)?;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    Ok(text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count())
}

/// Formats positional or named values: '%(a)s' | format(a=1).
fn format(state: &State, text: &str, values: Rest<Value>, names: Kwargs) -> Result<String, Error> {
    let named: Vec<&str> = names.args().collect();
    if named.is_empty() {
        return formats::printf(state, text, &Value::from(Tuple::from(values.0)));
    }
    if !values.is_empty() {
        return Err(refusal("format takes values or names, not both"));
    }
    let pairs = named.iter().map(|name| names.get::<Value>(name).map(|value| ((*name).to_owned(), value)));
    let map = Value::from_pairs(pairs.collect::<Result<Vec<_>, _>>()?);
    formats::printf(state, text, &map)
}

/// Puts spaces, or a text, before each line except the first line and empty lines.
fn indent(
    state: &State,
    value: &Value,
    width: Option<Value>,
    flags: Rest<bool>,
    names: Kwargs,
) -> Result<String, Error> {
    let (first, blank) = (flags.first().copied(), flags.get(1).copied());
    let width = width.or(names.get("width")?).unwrap_or_else(|| Value::from(4));
    let first = first.or(names.get("first")?).unwrap_or(false);
    let blank = blank.or(names.get("blank")?).unwrap_or(false);
    names.assert_all_used()?;
    let text = python::str_of(state, value)?;
    let lines = methods::lines(&text, false);
    let spaces = match width.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let width = usize::try_from(width)?;
            ensure_bytes(state, width)?;
            " ".repeat(width)
        }
    };
    ensure_bytes(state, text.len().saturating_add(lines.len().saturating_mul(spaces.len())))?;
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        out.push_str(if i > 0 { "\n" } else { "" });
        if if i == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&spaces);
        }
        out.push_str(line);
    }
    // A line end at the end of the text starts one more line, which is empty.
    if text.ends_with(methods::is_line_end) {
        out.push('\n');
        out.push_str(if blank { &spaces } else { "" });
    }
    Ok(out)
}

fn refusal(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// Converts a value to an integer, or returns the default: int('1.9') is 1 here, as in Jinja2.
fn int(value: &Value, default: Option<Value>, names: Kwargs) -> Result<Value, Error> {
    let default = default.or(names.get("default")?).unwrap_or_else(|| Value::from(0));
    names.assert_all_used()?;
    Ok(match (value.as_str(), value.kind()) {
        (Some(text), _) => {
            let digits = text.trim_matches(methods::is_space).replace('_', "");
            match (digits.parse::<i128>(), digits.parse::<f64>()) {
                (Ok(number), _) => Value::from(number),
                (_, Ok(number)) if number.abs() < 1e18 => Value::from(number as i64),
                _ => default,
            }
        }
        (_, ValueKind::Number) if value.is_integer() => value.clone(),
        (_, ValueKind::Number) => match f64::try_from(value.clone()) {
            Ok(number) if number.abs() < 1e18 => Value::from(number as i64),
            _ => default,
        },
        (_, ValueKind::Bool) => Value::from(i64::from(value.is_true())),
        _ => default,
    })
}

fn float(value: &Value, default: Option<Value>, names: Kwargs) -> Result<Value, Error> {
    let default = default.or(names.get("default")?).unwrap_or_else(|| Value::from(0.0));
    names.assert_all_used()?;
    let number = match value.as_str() {
        Some(text) => text.trim_matches(methods::is_space).replace('_', "").parse::<f64>().ok(),
        None if value.kind() == ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        None => f64::try_from(value.clone()).ok(),
    };
    Ok(number.map_or(default, Value::from))
}

/// True for a value with a length and items, which includes texts and maps, and for an undefined value.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined)
}
