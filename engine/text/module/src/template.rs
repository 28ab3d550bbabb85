//! Chat templates: renders Jinja with Transformers' settings, and finds the spans of `{% generation %}`.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Serde};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};

use crate::contract::{Failure, Outcome, Poll};
use crate::limits::{self, CALL_DEPTH, LONG_ROW, LONG_STEPS, STEPS};
use crate::tags::{self, BEGIN, END};
use crate::{filters, methods, python};

const NAME: &str = "template";
/// Maximum characters of an error message, because a template may raise a text of any length.
const MOST_WORDS: usize = 1000;

pub struct Template {
    /// The first is for rows below LONG_ROW bytes, the second for longer rows.
    environments: [Environment<'static>; 2],
    generation: bool,
}

/// A text, and its byte ranges [begin, end) to train on.
pub struct Rendered {
    pub text: String,
    pub learned: Vec<[u64; 2]>,
}

impl Template {
    pub fn open(source: &str) -> Outcome<Self> {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|error| words_of(&error, STEPS))?;
        let rewritten = tags::rewrite(source, &syntax)?;
        let open = |steps| -> Outcome<Environment<'static>> {
            let mut environment = environment(&syntax, steps);
            let added = environment.add_template_owned(NAME, rewritten.source.clone());
            added.map_err(|error| words_of(&error, steps))?;
            Ok(environment)
        };
        Ok(Template { environments: [open(STEPS)?, open(LONG_STEPS)?], generation: rewritten.has_generation })
    }

    /// True if the template marks the text to train on.
    pub fn has_generation(&self) -> bool {
        self.generation
    }

    /// Renders with the variables of a JSON object. `now`: the time that strftime_now prints, in seconds
    /// since 1970, in UTC.
    pub fn render(&self, variables: &str, now: i64, poll: Option<Poll>) -> Outcome<Rendered> {
        let bytes = variables.len();
        let (environment, steps) = match bytes < LONG_ROW {
            true => (&self.environments[0], STEPS),
            false => (&self.environments[1], LONG_STEPS),
        };
        let variables: serde_json::Value = serde_json::from_str(variables).map_err(Failure::invalid)?;
        let strftime_now = Value::from_function(move |format: &str| strftime(now, format));
        let context = minijinja::context! { strftime_now, ..Value::from(Serde(&variables)) };
        drop(variables);
        let template = environment.get_template(NAME).map_err(|error| words_of(&error, steps))?;
        let (marked, stopped) = limits::limited(bytes, poll, || template.render(context));
        if stopped {
            return Err(Failure::Stopped);
        }
        without_marks(&marked.map_err(|error| words_of(&error, steps))?)
    }
}

fn environment(syntax: &SyntaxConfig, steps: u64) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax.clone());
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(|out, state, value| match value.as_str() {
        Some(text) => out.write_str(text).map_err(Error::from),
        None => out.write_str(&python::str_of(state, value)?).map_err(Error::from),
    });
    environment.set_fuel(Some(steps));
    environment.set_recursion_limit(CALL_DEPTH);
    environment.add_filter(tags::BOUNDED, limits::bounded);
    environment.add_filter(tags::HELD, limits::held);
    environment.add_function("raise_exception", raise_exception);
    filters::add_to(&mut environment);
    environment
}

fn raise_exception(message: &str, _: Rest<Value>) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
}

/// Refuses widths, such as in %999999999d, and formats of more than 256 bytes, because they could make long
/// dates.
fn strftime(now: i64, format: &str) -> Result<String, Error> {
    let refuse = |reason: String| Error::new(ErrorKind::InvalidOperation, reason);
    let mut width = false;
    for c in format.chars() {
        if width && c.is_ascii_digit() {
            return Err(refuse(format!("strftime_now does not take a width, as in {format:?}")));
        }
        width = c == '%' || width && matches!(c, '_' | '-' | '0' | '^' | '#' | '.' | ':');
    }
    if format.len() > 256 {
        return Err(refuse("the format for strftime_now has more than 256 bytes".to_owned()));
    }
    let bad = |error: jiff::Error| refuse(error.to_string());
    let time = jiff::Timestamp::from_second(now).map_err(bad)?.to_zoned(jiff::tz::TimeZone::UTC);
    jiff::fmt::strtime::format(format, &time).map_err(bad)
}

/// Returns the template's own error message, with its line.
fn words_of(error: &Error, steps: u64) -> Failure {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let reason = match error.kind() {
        ErrorKind::OutOfFuel => format!(
            "it does not end, or its text is too long: a row of this length may take {steps} steps (each an \
             instruction, or {} bytes of text)",
            limits::BYTES_PER_STEP
        ),
        _ if what == "recursion limit exceeded" => {
            format!("macros, loops and blocks are nested in more than {CALL_DEPTH} levels")
        }
        _ if what == "template exceeds maximum recursion limits" => {
            "expressions or blocks are nested in more than 150 levels".to_owned()
        }
        _ => what.chars().take(MOST_WORDS).collect(),
    };
    match error.line() {
        Some(line) => Failure::invalid(format_args!("line {line}: {reason}")),
        None => Failure::invalid(reason),
    }
}

/// Removes the marks from a rendered text and records their positions.
fn without_marks(marked: &str) -> Outcome<Rendered> {
    let mut rendered = Rendered { text: String::with_capacity(marked.len()), learned: Vec::new() };
    let mut begin = None;
    for c in marked.chars() {
        let here = rendered.text.len() as u64;
        match (c, begin) {
            (BEGIN, None) => begin = Some(here),
            (END, Some(start)) => {
                rendered.learned.push([start, here]);
                begin = None;
            }
            (BEGIN | END, _) => {
                return Err(Failure::invalid("the text has U+10FFFE or U+10FFFF, which are no characters"))
            }
            _ => rendered.text.push(c),
        }
    }
    Ok(rendered)
}
