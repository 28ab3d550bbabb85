//! Chat templates: Jinja as Transformers sets it up, with the spans of `{% generation %}`.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Serde};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};

use crate::contract::{Failure, Outcome};
use crate::python;

/// What a template may do before it counts as endless: some instructions for each token of a long chat.
const FUEL: u64 = 50_000_000;
const DEPTH: usize = 200;
const NAME: &str = "template";
/// Where `{% generation %}` begins and ends. Unicode has no such characters, so no text has them.
const BEGIN: char = '\u{10fffe}';
const END: char = '\u{10ffff}';

pub struct Template {
    environment: Environment<'static>,
    generation: bool,
}

/// A text, and the bytes [begin, end) of it that are the model's to say.
pub struct Rendered {
    pub text: String,
    pub learned: Vec<[u64; 2]>,
}

impl Template {
    pub fn open(source: &str) -> Outcome<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(words_of)?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(|out, _, value| {
            let mut text = String::new();
            python::append_str(&mut text, value);
            out.write_str(&text).map_err(Error::from)
        });
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(DEPTH);
        environment.add_filter("tojson", python::tojson);
        environment.add_filter("string", python::string);
        environment.add_filter("trim", python::trim);
        environment.add_test("iterable", python::is_iterable);
        environment.add_function("raise_exception", raise_exception);
        let (source, generation) = mark_generation(source)?;
        environment.add_template_owned(NAME, source).map_err(words_of)?;
        Ok(Template { environment, generation })
    }

    /// Whether the template says what is learned.
    pub fn has_generation(&self) -> bool {
        self.generation
    }

    /// Renders with the variables of a JSON object. `now`: seconds since 1970, what strftime_now says in UTC.
    pub fn render(&self, variables: &str, now: i64) -> Outcome<Rendered> {
        let variables: serde_json::Value = serde_json::from_str(variables).map_err(Failure::invalid)?;
        let strftime_now = Value::from_function(move |format: &str| strftime(now, format));
        let context = minijinja::context! { strftime_now, ..Value::from(Serde(&variables)) };
        let template = self.environment.get_template(NAME).map_err(words_of)?;
        let marked = template.render(context).map_err(words_of)?;
        without_marks(&marked)
    }
}

fn raise_exception(message: &str, _: Rest<Value>) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
}

fn strftime(now: i64, format: &str) -> Result<String, Error> {
    let bad = |error: jiff::Error| Error::new(ErrorKind::InvalidOperation, error.to_string());
    let time = jiff::Timestamp::from_second(now).map_err(bad)?.to_zoned(jiff::tz::TimeZone::UTC);
    jiff::fmt::strtime::format(format, &time).map_err(bad)
}

/// The error in the template's own words, with its line.
fn words_of(error: Error) -> Failure {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let reason = match error.kind() {
        ErrorKind::OutOfFuel => format!("it does not end (stopped after {FUEL} instructions)"),
        _ => what,
    };
    match error.line() {
        Some(line) => Failure::invalid(format_args!("line {line}: {reason}")),
        None => Failure::invalid(reason),
    }
}

/// Puts a character in the place of each `{% generation %}` and `{% endgeneration %}`, inside a block, so that
/// spaces around it go as around any block.
fn mark_generation(source: &str) -> Outcome<(String, bool)> {
    let mut marked = String::new();
    let (mut rest, mut depth, mut found) = (source, 0, false);
    while let Some(begin) = rest.find("{%") {
        let Some(length) = rest[begin..].find("%}") else { break };
        let block = &rest[begin + 2..begin + length];
        let (left, word) = match block.strip_prefix(['-', '+']) {
            Some(word) => (&block[..1], word),
            None => ("", block),
        };
        let (word, right) = match word.strip_suffix(['-', '+']) {
            Some(word) => (word, &block[block.len() - 1..]),
            None => (word, ""),
        };
        let mark = match word.trim() {
            "generation" => Some(BEGIN),
            "endgeneration" => Some(END),
            _ => None,
        };
        let end = begin + length + 2;
        match mark {
            Some(mark) => {
                depth += if mark == BEGIN { 1 } else { -1 };
                if !(0..=1).contains(&depth) {
                    return Err(Failure::invalid("{% generation %} and {% endgeneration %} do not pair"));
                }
                found = true;
                marked.push_str(&rest[..begin]);
                marked.push_str(&format!("{{%{left} if true %}}{{{{ '{mark}' }}}}{{% endif {right}%}}"));
            }
            None => marked.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    if depth != 0 {
        return Err(Failure::invalid("{% generation %} has no {% endgeneration %}"));
    }
    marked.push_str(rest);
    Ok((marked, found))
}

/// Takes the marks out of a rendered text.
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
