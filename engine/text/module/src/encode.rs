//! Encoding with cancellation and a time limit. The steps are those of the tokenizers crate. Between steps,
//! and inside slow steps, the caller is polled and the time is checked. A word of many MiB is split at a
//! place where its tokens provably cannot join.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::Replace;
use tokenizers::pattern::{Invert, Pattern};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::utils::SysRegex;
use tokenizers::{
    Encoding, Model, ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper, OffsetType, Offsets,
    PreTokenizedString, PreTokenizer, PreTokenizerWrapper, Result, SplitDelimiterBehavior, Token, Tokenizer,
};

use crate::contract::{Failure, Outcome, Poll};

/// Minimum bytes of a word that is split for a BPE.
const LONG_WORD: usize = 1 << 20;
/// Minimum bytes of the parts of a long word.
const PART: usize = 64 << 10;
/// Words, or matches of a fast expression, between two polls.
const STEPS: u32 = 1024;
/// Maximum seconds for a text, in addition to one second for each SLOWEST bytes. Published tokenizers take
/// less than a second for a MiB; an untrusted expression may take a second for each match.
const SECONDS: u64 = 10;
const SLOWEST: u64 = 16 << 10;

/// Returns the ids of a text, or of a pair of texts.
pub fn encode(
    tokenizer: &Tokenizer,
    first: &str,
    second: Option<&str>,
    add_special: bool,
    offsets: OffsetType,
    poll: Poll,
) -> Outcome<Encoding> {
    let polled = Polled::new(poll, first.len() + second.map_or(0, str::len));
    let one = |text, type_id| {
        let result = encode_one(tokenizer, text, type_id, offsets, &polled);
        // The crate ignores errors of normalizers, so `polled` decides.
        polled.outcome(result)
    };
    let first = one(first, 0)?;
    let second = second.map(|text| one(text, 1)).transpose()?;
    tokenizer.post_process(first, second, add_special).map_err(Failure::invalid)
}

fn encode_one(
    tokenizer: &Tokenizer,
    text: &str,
    type_id: u32,
    offsets: OffsetType,
    polled: &Polled,
) -> Result<Encoding> {
    let normalizer = tokenizer.get_normalizer().map(|inner| PolledNormalizer { inner, polled });
    let added = tokenizer.get_added_vocabulary();
    let mut words = added.extract_and_normalize(normalizer.as_ref(), text);
    polled.check()?;
    if let Some(splitter) = tokenizer.get_pre_tokenizer() {
        pre_tokenize(splitter, &mut words, polled)?;
    }
    let model = tokenizer.get_model();
    words.tokenize(|word| {
        polled.step()?;
        match model {
            ModelWrapper::BPE(bpe) if word.get().len() > LONG_WORD => tokenize_parts(bpe, word.get(), polled),
            _ => model.tokenize(word.get()),
        }
    })?;
    polled.check()?;
    words.into_encoding(None, type_id, offsets)
}

struct Polled {
    poll: Poll,
    seconds: u64,
    end: Instant,
    steps: Cell<u32>,
    ended: Cell<Option<Ended>>,
}

#[derive(Clone, Copy)]
enum Ended {
    ByCaller,
    ByTime,
}

// The crate's traits require Sync. Without parallelism, everything stays on the caller's thread.
unsafe impl Sync for Polled {}

impl Polled {
    fn new(poll: Poll, bytes: usize) -> Self {
        let seconds = SECONDS + bytes as u64 / SLOWEST;
        let end = Instant::now() + Duration::from_secs(seconds);
        Polled { poll, seconds, end, steps: Cell::new(0), ended: Cell::new(None) }
    }

    /// Fails if the caller ends the call, or if it takes too long.
    fn check(&self) -> Result<()> {
        if self.ended.get().is_none() && self.poll.says_stop() {
            self.ended.set(Some(Ended::ByCaller));
        }
        if self.ended.get().is_none() && Instant::now() > self.end {
            self.ended.set(Some(Ended::ByTime));
        }
        match self.ended.get() {
            None => Ok(()),
            Some(_) => Err("the call ends early".into()),
        }
    }

    /// Like check, but only polls once in STEPS calls.
    fn step(&self) -> Result<()> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() < STEPS {
            return Ok(());
        }
        self.steps.set(0);
        self.check()
    }

    fn outcome<T>(&self, result: Result<T>) -> Outcome<T> {
        match self.ended.get() {
            None => result.map_err(Failure::invalid),
            Some(Ended::ByCaller) => Err(Failure::Stopped),
            Some(Ended::ByTime) => Err(Failure::invalid(format_args!(
                "encoding takes more than {} seconds: a regular expression of its normalizer or pre_tokenizer \
                 is too slow for this text",
                self.seconds
            ))),
        }
    }
}

struct PolledNormalizer<'a> {
    inner: &'a NormalizerWrapper,
    polled: &'a Polled,
}

impl Normalizer for PolledNormalizer<'_> {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        normalize(self.inner, text, self.polled)
    }
}

fn normalize(normalizer: &NormalizerWrapper, text: &mut NormalizedString, polled: &Polled) -> Result<()> {
    polled.check()?;
    match normalizer {
        NormalizerWrapper::Sequence(parts) => {
            parts.as_ref().iter().try_for_each(|part| normalize(part, text, polled))
        }
        NormalizerWrapper::Replace(part) => replace(part, text, polled),
        _ => normalizer.normalize(text),
    }
}

thread_local! {
    /// Compiled expressions of Replace, cached here because the crate's own copies are private.
    static EXPRESSIONS: RefCell<HashMap<String, Rc<SysRegex>>> = RefCell::default();
}

fn replace(part: &Replace, text: &mut NormalizedString, polled: &Polled) -> Result<()> {
    let described = serde_json::to_value(part)?;
    let Some(expression) = described["pattern"]["Regex"].as_str() else { return part.normalize(text) };
    let known = EXPRESSIONS.with_borrow(|known| known.get(expression).cloned());
    let regex = match known {
        Some(regex) => regex,
        None => {
            let regex = Rc::new(SysRegex::new(expression)?);
            EXPRESSIONS.with_borrow_mut(|known| {
                if known.len() >= 64 {
                    known.clear();
                }
                known.insert(expression.to_owned(), regex.clone());
            });
            regex
        }
    };
    text.replace(PolledPattern { regex: &regex, polled, slow: true }, &part.content)
}

fn pre_tokenize(
    splitter: &PreTokenizerWrapper,
    words: &mut PreTokenizedString,
    polled: &Polled,
) -> Result<()> {
    polled.check()?;
    match splitter {
        PreTokenizerWrapper::Sequence(parts) => {
            parts.as_ref().iter().try_for_each(|part| pre_tokenize(part, words, polled))
        }
        PreTokenizerWrapper::Split(split) => words.split(|_, text| {
            let pattern = PolledPattern { regex: &split.regex, polled, slow: true };
            match split.invert {
                true => text.split(Invert(pattern), split.behavior),
                false => text.split(pattern, split.behavior),
            }
        }),
        PreTokenizerWrapper::ByteLevel(bytes) => byte_level(*bytes, words, polled),
        _ => splitter.pre_tokenize(words),
    }
}

struct PolledPattern<'a> {
    regex: &'a SysRegex,
    polled: &'a Polled,
    /// True for an untrusted expression: it is polled after each match.
    slow: bool,
}

impl Pattern for PolledPattern<'_> {
    fn find_matches(&self, inside: &str) -> Result<Vec<(Offsets, bool)>> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let (mut behind, mut parts) = (0, Vec::new());
        for (begin, end) in self.regex.find_iter(inside) {
            match self.slow {
                true => self.polled.check()?,
                false => self.polled.step()?,
            }
            if behind != begin {
                parts.push(((behind, begin), false));
            }
            parts.push(((begin, end), true));
            behind = end;
        }
        if behind != inside.len() {
            parts.push(((behind, inside.len()), false));
        }
        Ok(parts)
    }
}

/// The expression at which ByteLevel splits, as in GPT-2.
static GPT2_WORDS: LazyLock<Option<SysRegex>> = LazyLock::new(|| {
    SysRegex::new(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+").ok()
});

/// The characters that represent bytes: printable bytes represent themselves, the others start at U+0100.
static BYTE_CHARS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut chars = ['\0'; 256];
    let mut others = 0x100u32..;
    for byte in 0..=255u8 {
        let code = match byte {
            b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => Some(u32::from(byte)),
            _ => others.next(),
        };
        chars[usize::from(byte)] = code.and_then(char::from_u32).unwrap_or_default();
    }
    chars
});

fn byte_level(bytes: ByteLevel, words: &mut PreTokenizedString, polled: &Polled) -> Result<()> {
    words.split(|_, mut text| {
        if bytes.add_prefix_space && !text.get().starts_with(' ') {
            text.prepend(" ");
        }
        match &*GPT2_WORDS {
            Some(regex) if bytes.use_regex => {
                text.split(PolledPattern { regex, polled, slow: false }, SplitDelimiterBehavior::Isolated)
            }
            _ => Ok(vec![text]),
        }
    })?;
    words.normalize(|word| {
        polled.step()?;
        let mut changes = Vec::with_capacity(word.get().len());
        for c in word.get().chars() {
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).bytes();
            changes.extend(
                utf8.enumerate().map(|(i, byte)| (BYTE_CHARS[usize::from(byte)], isize::from(i > 0))),
            );
        }
        word.transform(changes, 0);
        Ok(())
    })
}

/// Tokenizes a long word in parts. A part ends between two characters of the vocabulary that are adjacent in
/// none of its tokens, so no merge crosses that place.
fn tokenize_parts(bpe: &BPE, word: &str, polled: &Polled) -> Result<Vec<Token>> {
    let has = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let whole = bpe.dropout.is_some()
        || bpe.ignore_merges
        || has(&bpe.continuing_subword_prefix)
        || has(&bpe.end_of_word_suffix);
    if whole {
        return bpe.tokenize(word);
    }
    let (mut single, mut joined) = (HashSet::new(), HashSet::new());
    for token in bpe.get_vocab().keys() {
        let mut chars = token.chars();
        let Some(mut last) = chars.next() else { continue };
        if token.len() == last.len_utf8() {
            single.insert(last);
        }
        for c in chars {
            joined.insert((last, c));
            last = c;
        }
    }
    let (mut tokens, mut begin, mut last) = (Vec::new(), 0, None);
    for (at, c) in word.char_indices() {
        let apart = last.is_some_and(|last| {
            at - begin >= PART
                && single.contains(&last)
                && single.contains(&c)
                && !joined.contains(&(last, c))
        });
        if apart {
            add_part(bpe, word, begin, at, &mut tokens)?;
            begin = at;
            polled.check()?;
        }
        last = Some(c);
    }
    add_part(bpe, word, begin, word.len(), &mut tokens)?;
    Ok(tokens)
}

fn add_part(bpe: &BPE, word: &str, begin: usize, end: usize, tokens: &mut Vec<Token>) -> Result<()> {
    let part = bpe.tokenize(&word[begin..end])?;
    tokens.extend(
        part.into_iter()
            .map(|token| Token { offsets: (token.offsets.0 + begin, token.offsets.1 + begin), ..token }),
    );
    Ok(())
}
