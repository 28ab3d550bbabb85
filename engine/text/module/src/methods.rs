//! Methods: Python's str methods that chat templates call, with the results of Python 3. If a result can be
//! larger than its inputs, the remaining steps bound it.

use minijinja::value::{from_args, Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::limits::ensure_bytes;
use crate::{containers, formats, python};

pub fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => of_text(state, text, method, args),
        (_, ValueKind::Map) => containers::of_map(value, method, args),
        (_, ValueKind::Seq | ValueKind::Iterable) => containers::of_list(state, value, method, args),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn refusal(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.into())
}

fn of_text(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(result) = asks(text, method, args)? {
        return Ok(Value::from(result));
    }
    if let Some(result) = finds(text, method, args)? {
        return Ok(Value::from(result));
    }
    if let Some(result) = cases(text, method, args)? {
        return Ok(Value::from(result));
    }
    if let Some(result) = cuts(text, method, args)? {
        return Ok(Value::from(result));
    }
    match method {
        "split" | "rsplit" => split(state, text, method == "rsplit", args),
        "splitlines" => split_lines(state, text, args),
        "partition" | "rpartition" => partition(text, method == "rpartition", args),
        "replace" => replace(state, text, args),
        "join" => join(state, text, args),
        "format" => formats::str_format(state, text, args).map(Value::from),
        "ljust" | "rjust" | "center" | "zfill" => fill(state, text, method, args),
        "expandtabs" => expand_tabs(state, text, args),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// Implements Python's str.isspace(), which includes four separators that Unicode does not call white space.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase()
}

/// Runs the methods that return a bool.
fn asks(text: &str, method: &str, args: &[Value]) -> Result<Option<bool>, Error> {
    let all = |holds: fn(char) -> bool| !text.is_empty() && text.chars().all(holds);
    let answer = match method {
        "isalnum" => all(char::is_alphanumeric),
        "isalpha" => all(char::is_alphabetic),
        "isascii" => text.is_ascii(),
        "isdecimal" | "isdigit" if text.is_ascii() => all(|c| c.is_ascii_digit()),
        "isnumeric" => all(char::is_numeric),
        "isspace" => all(is_space),
        "isprintable" => text.chars().all(python::is_printable),
        "islower" => text.chars().any(is_cased) && !text.chars().any(char::is_uppercase),
        "isupper" => text.chars().any(is_cased) && !text.chars().any(char::is_lowercase),
        "istitle" => text.chars().any(is_cased) && title(text) == text,
        "startswith" | "endswith" => return begins_or_ends(text, method == "startswith", args).map(Some),
        _ => return Ok(None),
    };
    let () = from_args(args)?;
    Ok(Some(answer))
}

/// Returns the characters [begin, end) of a text, and the number of characters before them; None if `begin`
/// is after the text.
fn part(text: &str, begin: Option<i64>, end: Option<i64>) -> Option<(&str, i64)> {
    if begin.is_none() && end.is_none() {
        return Some((text, 0));
    }
    let count = text.chars().count() as i64;
    let place = |at: i64| if at < 0 { (at + count).max(0) } else { at };
    let (begin, end) = (place(begin.unwrap_or(0)), place(end.unwrap_or(count)).min(count));
    if begin > count || begin > end {
        return None;
    }
    let byte = |at: i64| text.char_indices().nth(at as usize).map_or(text.len(), |(byte, _)| byte);
    Some((&text[byte(begin)..byte(end)], begin))
}

fn begins_or_ends(text: &str, begins: bool, args: &[Value]) -> Result<bool, Error> {
    let (what, begin, end): (&Value, Option<i64>, Option<i64>) = from_args(args)?;
    let Some((text, _)) = part(text, begin, end) else { return Ok(false) };
    let holds = |what: &str| if begins { text.starts_with(what) } else { text.ends_with(what) };
    if let Some(what) = what.as_str() {
        return Ok(holds(what));
    }
    if !what.is_tuple() {
        return Err(refusal(format!(
            "startswith and endswith take a text or a tuple of texts, not {}",
            what.kind()
        )));
    }
    for one in what.try_iter()?.checked() {
        let one = one?;
        if holds(one.as_str().ok_or_else(|| refusal("startswith and endswith take a tuple of texts only"))?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs the methods that return a position or a count.
fn finds(text: &str, method: &str, args: &[Value]) -> Result<Option<i64>, Error> {
    if !matches!(method, "find" | "rfind" | "index" | "rindex" | "count") {
        return Ok(None);
    }
    let (what, begin, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
    let found = part(text, begin, end);
    if method == "count" {
        return Ok(Some(found.map_or(0, |(text, _)| text.matches(what).count() as i64)));
    }
    let place = found.and_then(|(text, before)| {
        let at = if method.starts_with('r') { text.rfind(what) } else { text.find(what) };
        at.map(|at| before + text[..at].chars().count() as i64)
    });
    match place {
        None if method.ends_with("index") => Err(refusal("substring not found")),
        place => Ok(Some(place.unwrap_or(-1))),
    }
}

fn title(text: &str) -> String {
    let (mut out, mut inside) = (String::with_capacity(text.len()), false);
    for c in text.chars() {
        match inside {
            true => out.extend(c.to_lowercase()),
            false => out.push_str(&first_upper(c)),
        }
        inside = is_cased(c);
    }
    out
}

/// Converts a character to title case: if it becomes several letters, only the first is upper case.
fn first_upper(c: char) -> String {
    let mut upper = c.to_uppercase();
    let first: String = upper.next().into_iter().collect();
    first + &upper.flat_map(char::to_lowercase).collect::<String>()
}

pub fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map_or_else(String::new, first_upper);
    first + &chars.as_str().to_lowercase()
}

/// Runs the methods that change upper and lower case.
fn cases(text: &str, method: &str, args: &[Value]) -> Result<Option<String>, Error> {
    let changed = match method {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "casefold" if text.is_ascii() => text.to_ascii_lowercase(),
        "capitalize" => capitalize(text),
        "title" => title(text),
        "swapcase" => text
            .chars()
            .flat_map(|c| match c.is_uppercase() {
                true => c.to_lowercase().collect::<Vec<_>>(),
                false => c.to_uppercase().collect(),
            })
            .collect(),
        _ => return Ok(None),
    };
    let () = from_args(args)?;
    Ok(Some(changed))
}

/// Runs the methods that remove text at an end.
fn cuts<'a>(text: &'a str, method: &str, args: &[Value]) -> Result<Option<&'a str>, Error> {
    if let "removeprefix" | "removesuffix" = method {
        let (what,): (&str,) = from_args(args)?;
        let cut = if method == "removeprefix" { text.strip_prefix(what) } else { text.strip_suffix(what) };
        return Ok(Some(cut.unwrap_or(text)));
    }
    if !matches!(method, "strip" | "lstrip" | "rstrip") {
        return Ok(None);
    }
    let (set,): (Option<&str>,) = from_args(args)?;
    let goes = |c: char| set.map_or_else(|| is_space(c), |set| set.contains(c));
    Ok(Some(match method {
        "lstrip" => text.trim_start_matches(goes),
        "rstrip" => text.trim_end_matches(goes),
        _ => text.trim_matches(goes),
    }))
}

/// Collects the pieces of a text. Each piece costs a step.
struct Pieces<'a> {
    state: &'a State<'a, 'a>,
    list: Vec<Value>,
}

impl<'a> Pieces<'a> {
    fn new(state: &'a State<'a, 'a>) -> Self {
        Pieces { state, list: Vec::new() }
    }

    fn push(&mut self, piece: &str) -> Result<(), Error> {
        self.state.consume_fuel(1)?;
        self.list.push(Value::from(piece));
        Ok(())
    }

    fn list(mut self, reversed: bool) -> Value {
        if reversed {
            self.list.reverse();
        }
        Value::from(self.list)
    }
}

fn split(state: &State, text: &str, from_right: bool, args: &[Value]) -> Result<Value, Error> {
    let (by, most, names): (Option<&Value>, Option<i64>, Kwargs) = from_args(args)?;
    let named_by: Option<&Value> = names.get("sep")?;
    let named_most: Option<i64> = names.get("maxsplit")?;
    names.assert_all_used()?;
    let by = by.or(named_by).filter(|by| !by.is_none());
    let most = usize::try_from(most.or(named_most).unwrap_or(-1)).unwrap_or(usize::MAX - 1);
    let Some(by) = by else { return split_at_spaces(state, text, most, from_right) };
    let by = by.as_str().ok_or_else(|| refusal(format!("split takes a text, not {}", by.kind())))?;
    if by.is_empty() {
        return Err(refusal("empty separator"));
    }
    let mut pieces = Pieces::new(state);
    match from_right {
        false => text.splitn(most + 1, by).try_for_each(|piece| pieces.push(piece))?,
        true => text.rsplitn(most + 1, by).try_for_each(|piece| pieces.push(piece))?,
    }
    Ok(pieces.list(from_right))
}

/// Splits at white space. After `most` pieces, the rest is one piece and keeps the spaces at its other end.
fn split_at_spaces(state: &State, text: &str, most: usize, from_right: bool) -> Result<Value, Error> {
    let (mut rest, mut pieces) = (text, Pieces::new(state));
    loop {
        rest = if from_right { rest.trim_end_matches(is_space) } else { rest.trim_start_matches(is_space) };
        if rest.is_empty() {
            break;
        }
        if pieces.list.len() == most {
            pieces.push(rest)?;
            break;
        }
        let (piece, others) = match from_right {
            true => {
                let last_space = rest.char_indices().rev().find(|&(_, c)| is_space(c));
                let (others, piece) = rest.split_at(last_space.map_or(0, |(at, c)| at + c.len_utf8()));
                (piece, others)
            }
            false => rest.split_at(rest.find(is_space).unwrap_or(rest.len())),
        };
        pieces.push(piece)?;
        rest = others;
    }
    Ok(pieces.list(from_right))
}

fn split_lines(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let (ends, names): (Option<bool>, Kwargs) = from_args(args)?;
    let named: Option<bool> = names.get("keepends")?;
    names.assert_all_used()?;
    let keeps = ends.or(named).unwrap_or(false);
    let mut pieces = Pieces::new(state);
    lines(text, keeps).into_iter().try_for_each(|line| pieces.push(line))?;
    Ok(pieces.list(false))
}

pub fn is_line_end(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns the lines of a text, with or without their line ends.
pub fn lines(text: &str, with_ends: bool) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(is_line_end) {
        let length = match rest[at..].starts_with("\r\n") {
            true => 2,
            false => rest[at..].chars().next().map_or(0, char::len_utf8),
        };
        lines.push(&rest[..if with_ends { at + length } else { at }]);
        rest = &rest[at + length..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn partition(text: &str, from_right: bool, args: &[Value]) -> Result<Value, Error> {
    let (by,): (&str,) = from_args(args)?;
    if by.is_empty() {
        return Err(refusal("empty separator"));
    }
    let split = if from_right { text.rsplit_once(by) } else { text.split_once(by) };
    let parts = match split {
        Some((before, behind)) => [before, by, behind],
        None if from_right => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

fn replace(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let (old, new, most, names): (&str, &str, Option<i64>, Kwargs) = from_args(args)?;
    let named: Option<i64> = names.get("count")?;
    names.assert_all_used()?;
    let most = usize::try_from(most.or(named).unwrap_or(-1)).unwrap_or(usize::MAX);
    replaced(state, text, old, new, most).map(Value::from)
}

pub fn replaced(state: &State, text: &str, old: &str, new: &str, most: usize) -> Result<String, Error> {
    let count = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    ensure_bytes(state, text.len().saturating_add(count.min(most).saturating_mul(new.len())))?;
    Ok(text.replacen(old, new, most))
}

fn join(state: &State, by: &str, args: &[Value]) -> Result<Value, Error> {
    let (items,): (&Value,) = from_args(args)?;
    let mut out = String::new();
    for (i, item) in items.try_iter()?.checked().enumerate() {
        let item = item?;
        let text = item.as_str().ok_or_else(|| {
            refusal(format!("sequence item {i}: expected str instance, {} found", item.kind()))
        })?;
        if i % 4 == 0 {
            state.consume_fuel(1)?;
        }
        ensure_bytes(state, out.len() + by.len() + text.len())?;
        out.push_str(if i > 0 { by } else { "" });
        out.push_str(text);
    }
    Ok(Value::from(out))
}

fn fill(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, with): (i64, Option<&str>) = from_args(args)?;
    let mut chars = with.unwrap_or(if method == "zfill" { "0" } else { " " }).chars();
    let (Some(fill), None) = (chars.next(), chars.next()) else {
        return Err(refusal("The fill character must be exactly one character long"));
    };
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
    ensure_bytes(state, text.len().saturating_add(missing.saturating_mul(fill.len_utf8())))?;
    let filled = |count: usize| std::iter::repeat_n(fill, count).collect::<String>();
    Ok(Value::from(match method {
        "ljust" => text.to_owned() + &filled(missing),
        "rjust" => filled(missing) + text,
        "zfill" => {
            let digits = text.trim_start_matches(['+', '-']);
            let sign = &text[..usize::from(digits.len() < text.len())];
            sign.to_owned() + &filled(missing) + &text[sign.len()..]
        }
        _ => {
            let left = missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1);
            filled(left) + text + &filled(missing - left)
        }
    }))
}

fn expand_tabs(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let (size,): (Option<i64>,) = from_args(args)?;
    let size = usize::try_from(size.unwrap_or(8)).unwrap_or(0);
    ensure_bytes(state, text.len().saturating_add(text.matches('\t').count().saturating_mul(size)))?;
    let (mut out, mut column) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let count = size - column % size;
                out.extend(std::iter::repeat_n(' ', count));
                column += count;
            }
            '\t' => {}
            c => {
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
                out.push(c);
            }
        }
    }
    Ok(Value::from(out))
}
