//! Tags: checks how large the syntax tree of a chat template can become, before minijinja builds it, and
//! rewrites the source so that
//!
//! - `{% generation %}` and `{% endgeneration %}` print marks,
//! - every value that gets a name passes the filter `bounded` (limits.rs),
//! - `a % b` is a filter, because minijinja supports it only for numbers.
//!
//! Inserted text contains no newline, so each line keeps its number.

use minijinja::machinery::{tokenize, Span, Token};
use minijinja::syntax::SyntaxConfig;

use crate::contract::{Failure, Outcome};
use crate::limits::{ELIFS, SOURCE_BYTES, TAG_TOKENS, TOKENS};

/// Marks for the beginning and end of `{% generation %}`. Unicode assigns no characters to these code points,
/// so no text contains them.
pub const BEGIN: char = '\u{10fffe}';
pub const END: char = '\u{10ffff}';

pub const BOUNDED: &str = "hawser_bounded";
pub const HELD: &str = "hawser_held";
pub const REMAINDER: &str = "hawser_remainder";
pub const TEXT: &str = "hawser_text";

pub struct Rewritten {
    pub source: String,
    pub has_generation: bool,
}

/// Returns the source in the form for minijinja.
pub fn rewrite(source: &str, syntax: &SyntaxConfig) -> Outcome<Rewritten> {
    if source.len() > SOURCE_BYTES {
        return Err(Failure::invalid(format_args!(
            "it has {} bytes; a chat template may have at most {SOURCE_BYTES}",
            source.len()
        )));
    }
    let mut tags = Tags { source, edits: Vec::new(), generation: None, has_generation: false, elifs: 0 };
    let mut tag: Vec<(Token, Span)> = Vec::new();
    let (mut start, mut count) = (None, 0);
    for token in tokenize(source, false, syntax.clone()) {
        let Ok((token, span)) = token else { break }; // the parser reports the error
        count += 1;
        if count > TOKENS {
            return Err(tags.refuse(span, format!("a chat template may have at most {TOKENS} tokens")));
        }
        match token {
            Token::TemplateData(_) => {}
            Token::VariableStart | Token::BlockStart => start = Some(span),
            Token::VariableEnd => {
                tags.remainders(&tag);
                tag.clear();
            }
            Token::BlockEnd => {
                tags.block(start.take().unwrap_or(span), &tag, span)?;
                tag.clear();
            }
            token => {
                tag.push((token, span));
                if tag.len() > TAG_TOKENS {
                    return Err(tags.refuse(span, format!("a tag may have at most {TAG_TOKENS} tokens")));
                }
            }
        }
    }
    if let Some(begin) = tags.generation {
        return Err(tags.refuse(begin, "{% generation %} has no {% endgeneration %}".to_owned()));
    }
    Ok(Rewritten { has_generation: tags.has_generation, source: tags.edited() })
}

/// Replaces the bytes [begin, end) by `text`.
struct Edit {
    begin: usize,
    end: usize,
    text: String,
}

struct Tags<'a> {
    source: &'a str,
    edits: Vec<Edit>,
    /// The `{% generation %}` that is still open.
    generation: Option<Span>,
    has_generation: bool,
    elifs: usize,
}

type Tokens<'a, 'b> = &'b [(Token<'a>, Span)];

impl Tags<'_> {
    fn refuse(&self, at: Span, reason: String) -> Failure {
        let before = &self.source.as_bytes()[..at.start_offset as usize];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        Failure::invalid(format_args!("line {line}: {reason}"))
    }

    fn insert(&mut self, at: u32, text: impl Into<String>) {
        self.edits.push(Edit { begin: at as usize, end: at as usize, text: text.into() });
    }

    fn edited(mut self) -> String {
        self.edits.sort_by_key(|edit| (edit.begin, edit.end)); // stable: keeps the order of equal edits
        let mut text = String::with_capacity(self.source.len() + 16 * self.edits.len());
        let mut at = 0;
        for edit in &self.edits {
            text.push_str(&self.source[at..edit.begin]);
            text.push_str(&edit.text);
            at = edit.end;
        }
        text.push_str(&self.source[at..]);
        text
    }

    fn block(&mut self, start: Span, tag: Tokens, end: Span) -> Outcome<()> {
        let Some((Token::Ident(name), _)) = tag.first() else { return Ok(()) };
        let rest = &tag[1..];
        self.remainders(tag);
        match *name {
            "generation" | "endgeneration" if rest.is_empty() => return self.generation(start, name, end),
            "include" | "import" | "from" | "extends" => {
                let reason = format!("{{% {name} %}}: a chat template has no other templates to read");
                return Err(self.refuse(start, reason));
            }
            "autoescape" => return Err(self.refuse(start, "{% autoescape %} is not supported".to_owned())),
            "elif" => {
                self.elifs += 1;
                if self.elifs > ELIFS {
                    return Err(self.refuse(start, format!("a chat template may have at most {ELIFS} elif")));
                }
            }
            "set" => self.set(rest, end),
            "with" => self.with(rest, end),
            "for" => self.names(targets(rest), end),
            "macro" => self.names(parameters(rest), end),
            "call" if matches!(rest.first(), Some((Token::ParenOpen, _))) => {
                self.names(parameters(rest), end)
            }
            _ => {}
        }
        Ok(())
    }

    /// Prints the mark in a block of its own, so that spaces around it are treated as around any block.
    fn generation(&mut self, start: Span, name: &str, end: Span) -> Outcome<()> {
        let begins = name == "generation";
        if begins == self.generation.is_some() {
            let reason = "{% generation %} and {% endgeneration %} do not pair".to_owned();
            return Err(self.refuse(start, reason));
        }
        self.generation = begins.then_some(start);
        self.has_generation = true;
        let (begin, end) = (start.start_offset as usize, end.end_offset as usize);
        let block = &self.source[begin..end];
        let sign = |c: Option<u8>| match c {
            Some(b'-') => "-",
            Some(b'+') => "+",
            _ => "",
        };
        let bytes = block.as_bytes();
        let (left, right) = (sign(bytes.get(2).copied()), sign(bytes.iter().rev().nth(2).copied()));
        let mark = if begins { BEGIN } else { END };
        let text = format!("{{%{left} if true %}}{{{{ '{mark}' }}}}{{% endif {right}%}}");
        self.edits.push(Edit { begin, end, text });
        Ok(())
    }

    /// `{% set a = x %}` becomes `{% set a = (x)|bounded %}`.
    fn set(&mut self, rest: Tokens, end: Span) {
        let Some(assign) = top_level(rest).find(|(token, _)| matches!(token, Token::Assign)) else { return };
        let of_namespace = rest
            .iter()
            .take_while(|(_, span)| span.start_offset < assign.1.start_offset)
            .any(|(token, _)| matches!(token, Token::Dot));
        self.insert(assign.1.end_offset, "(");
        self.insert(end.start_offset, format!(")|{} ", if of_namespace { HELD } else { BOUNDED }));
    }

    fn with(&mut self, rest: Tokens, end: Span) {
        let mut open = false;
        let places: Vec<(bool, Span)> = top_level(rest)
            .filter(|(token, _)| matches!(token, Token::Assign | Token::Comma))
            .map(|(token, span)| (matches!(token, Token::Assign), *span))
            .collect();
        for (assigns, span) in places {
            if assigns {
                self.insert(span.end_offset, "(");
                open = true;
            } else if open {
                self.insert(span.start_offset, format!(")|{BOUNDED} "));
                open = false;
            }
        }
        if open {
            self.insert(end.start_offset, format!(")|{BOUNDED} "));
        }
    }

    /// Inserts `{% set a = a|bounded %}` after `{% for a in x %}`, with the white-space sign of the loop's
    /// own block.
    fn names(&mut self, names: Vec<String>, end: Span) {
        let sign = match self.source.as_bytes()[end.start_offset as usize] {
            b'-' => "-",
            b'+' => "+",
            _ => "",
        };
        for name in names {
            self.insert(end.end_offset, format!("{{% set {name} = {name}|{BOUNDED} {sign}%}}"));
        }
    }

    /// `a % b` becomes `(a)|remainder((b))`.
    fn remainders(&mut self, tag: Tokens) {
        for (at, (token, span)) in tag.iter().enumerate() {
            if !matches!(token, Token::Mod) {
                continue;
            }
            let (Some(left), Some(right)) = (left_operand(tag, at), right_operand(tag, at)) else { continue };
            self.insert(tag[left].1.start_offset, "(");
            let text = format!(")|{REMAINDER}((");
            self.edits.push(Edit { begin: span.start_offset as usize, end: span.end_offset as usize, text });
            self.insert(tag[right].1.end_offset, "))");
        }
    }
}

fn is_open(token: &Token) -> bool {
    matches!(token, Token::ParenOpen | Token::BracketOpen | Token::BraceOpen)
}

fn is_close(token: &Token) -> bool {
    matches!(token, Token::ParenClose | Token::BracketClose | Token::BraceClose)
}

/// Returns the tokens outside all brackets.
fn top_level<'a, 'b>(tokens: Tokens<'a, 'b>) -> impl Iterator<Item = &'b (Token<'a>, Span)> {
    let mut depth = 0i32;
    tokens.iter().filter(move |(token, _)| {
        if is_close(token) {
            depth -= 1;
        }
        let outside = depth == 0;
        if is_open(token) {
            depth += 1;
        }
        outside
    })
}

/// Returns the names before `in`.
fn targets(rest: Tokens) -> Vec<String> {
    rest.iter()
        .map_while(|(token, _)| match token {
            Token::Ident("in") => None,
            Token::Ident(name) => Some(Some((*name).to_owned())),
            _ => Some(None),
        })
        .flatten()
        .collect()
}

/// Returns the names of parameters, not their defaults.
fn parameters(rest: Tokens) -> Vec<String> {
    let (mut depth, mut names, mut expected) = (0, Vec::new(), false);
    for (token, _) in rest {
        match token {
            Token::Ident(name) if expected && depth == 1 => names.push((*name).to_owned()),
            token if is_open(token) => depth += 1,
            token if is_close(token) => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
        expected = depth == 1 && matches!(token, Token::ParenOpen | Token::Comma);
    }
    names
}

/// True if a token ends an operand of `%`: an operator that binds less closely, or a token that is not part
/// of an expression.
fn ends_operand(tag: Tokens, at: usize) -> bool {
    let of_test = || at > 0 && matches!(tag[at - 1].0, Token::Ident("is"));
    match &tag[at].0 {
        Token::Ident("not") => !of_test(), // `a is not odd`
        Token::Ident(word) => {
            matches!(*word, "and" | "or" | "in" | "if" | "else" | "recursive") && !of_test()
        }
        Token::Plus | Token::Tilde | Token::Assign | Token::Comma | Token::Colon => true,
        Token::Eq | Token::Ne | Token::Lt | Token::Lte | Token::Gt | Token::Gte => true,
        _ => false,
    }
}

/// True if the minus at `at` has an operand on its left.
fn is_binary(tag: Tokens, at: usize) -> bool {
    match at.checked_sub(1).map(|before| &tag[before].0) {
        None => false,
        Some(Token::Ident(word)) => {
            !matches!(*word, "and" | "or" | "not" | "in" | "is" | "if" | "else" | "elif")
        }
        Some(Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_)) => true,
        Some(token) => is_close(token),
    }
}

/// Returns the first token of the left operand of `%`: `a * b` in `x + a * b % c`.
fn left_operand(tag: Tokens, at: usize) -> Option<usize> {
    let (mut depth, mut first) = (0, None);
    for i in (0..at).rev() {
        let token = &tag[i].0;
        if is_close(token) {
            depth += 1;
        } else if is_open(token) {
            depth -= 1;
            if depth < 0 {
                break;
            }
        } else if depth == 0 && (ends_operand(tag, i) || matches!(token, Token::Minus) && is_binary(tag, i)) {
            break;
        }
        first = Some(i);
    }
    // The keyword of a statement, such as `if`, is not an operand.
    match first {
        Some(0) if matches!(tag[0].0, Token::Ident("elif" | "set" | "for" | "do" | "call" | "with")) => {
            (at > 1).then_some(1)
        }
        first => first,
    }
}

/// Returns the last token of the right operand of `%`: a power of operands with their signs, subscripts,
/// calls and filters.
/// filters.
fn right_operand(tag: Tokens, at: usize) -> Option<usize> {
    let (mut depth, mut last) = (0, None);
    for (i, (token, _)) in tag.iter().enumerate().skip(at + 1) {
        if is_open(token) {
            depth += 1;
        } else if is_close(token) {
            depth -= 1;
            if depth < 0 {
                break;
            }
        } else if depth == 0 {
            let binds_less = matches!(token, Token::Mul | Token::Div | Token::FloorDiv | Token::Mod);
            if binds_less || ends_operand(tag, i) || matches!(token, Token::Minus) && is_binary(tag, i) {
                break;
            }
        }
        last = Some(i);
    }
    last
}
