//! Growth: a check that bounds how much longer a tokenizer can make a text or its tokens. A tokenizer.json
//! may come from an untrusted folder; a few consecutive replacements could fill the memory at the first text.
//! Published tokenizers stay below a factor of 10.

use serde_json::Value;
use tokenizers::{ModelWrapper, Tokenizer};

use crate::contract::{Failure, Outcome};

/// Maximum growth factor of bytes in normalizing, of token texts in decoding, and of tokens in
/// post-processing.
const MOST_GROWTH: u64 = 64;
/// Maximum bytes that are added before or after a text, and maximum tokens around it.
const MOST_ADDED: usize = 4096;
/// Maximum steps of one component, such as the normalizer.
const MOST_PARTS: usize = 64;
/// Maximum characters of a word in WordPiece. It tries every part of a word, so its time grows with the
/// square of the length.
const MOST_WORD: usize = 1000;

pub fn check(tokenizer: &Tokenizer) -> Outcome<()> {
    let of = |part: Result<Value, serde_json::Error>| part.map_err(Failure::invalid);
    let normalizer = of(serde_json::to_value(tokenizer.get_normalizer()))?;
    let processor = of(serde_json::to_value(tokenizer.get_post_processor()))?;
    let decoder = of(serde_json::to_value(tokenizer.get_decoder()))?;
    let splitter = of(serde_json::to_value(tokenizer.get_pre_tokenizer()))?;
    for (name, part) in [
        ("normalizer", normalizer),
        ("post_processor", processor),
        ("decoder", decoder),
        ("pre_tokenizer", splitter),
    ] {
        let mut growth = Growth { factor: 1, added: 0, parts: 0 };
        growth.add(&part);
        growth.check(name)?;
    }
    match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) if model.max_input_chars_per_word > MOST_WORD => {
            Err(Failure::invalid(format_args!(
                "its model's max_input_chars_per_word is {}; at most {MOST_WORD} is supported",
                model.max_input_chars_per_word
            )))
        }
        _ => Ok(()),
    }
}

struct Growth {
    factor: u64,
    added: usize,
    parts: usize,
}

fn bytes_of(part: &Value, key: &str) -> usize {
    part.get(key).and_then(Value::as_str).map_or(0, str::len)
}

impl Growth {
    fn add(&mut self, part: &Value) {
        for key in ["normalizers", "pretokenizers", "processors", "decoders"] {
            part.get(key).and_then(Value::as_array).into_iter().flatten().for_each(|inner| self.add(inner));
        }
        self.parts += 1;
        match part.get("type").and_then(Value::as_str) {
            Some("Replace") => self.multiply(replacement(part)),
            Some("Prepend") => self.added += bytes_of(part, "prepend"),
            Some("Precompiled") => self.multiply(longest_mapped(part)),
            Some("TemplateProcessing") => self.template(part),
            _ => {}
        }
    }

    fn multiply(&mut self, factor: usize) {
        self.factor = self.factor.saturating_mul(factor.max(1) as u64);
    }

    /// Checks a template, which may repeat the text and add tokens around it.
    fn template(&mut self, part: &Value) {
        let special = part.get("special_tokens").and_then(Value::as_object);
        let ids_of = |name: &str| {
            let ids = special?.get(name)?.get("ids")?.as_array()?;
            Some(ids.len())
        };
        let mut most = 0;
        for side in ["single", "pair"] {
            let pieces = part.get(side).and_then(Value::as_array);
            let mut texts = 0;
            for piece in pieces.into_iter().flatten() {
                texts += usize::from(piece.get("Sequence").is_some());
                let name =
                    piece.get("SpecialToken").and_then(|token| token.get("id")).and_then(Value::as_str);
                self.added = self.added.saturating_add(name.and_then(ids_of).unwrap_or(1));
            }
            most = most.max(texts);
        }
        self.multiply(most);
    }

    fn check(&self, name: &str) -> Outcome<()> {
        if self.factor > MOST_GROWTH {
            return Err(Failure::invalid(format_args!(
                "its {name} can make a text {} times as long; at most {MOST_GROWTH} times is supported",
                self.factor
            )));
        }
        if self.added > MOST_ADDED || self.parts > MOST_PARTS {
            return Err(Failure::invalid(format_args!(
                "its {name} has {} steps and adds {} bytes or tokens to each text; at most {MOST_PARTS} and \
                 {MOST_ADDED} are supported",
                self.parts, self.added
            )));
        }
        Ok(())
    }
}

/// Returns the bytes for each replaced byte. A regular expression matches at least one byte, or nothing. If
/// it matches nothing, the replacement is inserted next to each byte.
fn replacement(part: &Value) -> usize {
    let content = bytes_of(part, "content");
    match part.get("pattern") {
        Some(pattern) if pattern.get("String").is_some() => {
            content.div_ceil(bytes_of(pattern, "String").max(1))
        }
        _ => content + usize::from(content > 1),
    }
}

/// Returns the length of the longest text that SentencePiece's map gives for a character. The map consists of
/// the trie's size in bytes, the trie, and texts that end with a zero byte.
fn longest_mapped(part: &Value) -> usize {
    let map = part.get("precompiled_charsmap").and_then(Value::as_str).map(base64).unwrap_or_default();
    let Some(trie) = map.first_chunk::<4>() else { return 1 };
    let texts = map.get((u32::from_le_bytes(*trie) as usize).saturating_add(4)..).unwrap_or(&map);
    texts.split(|&byte| byte == 0).map(<[u8]>::len).max().unwrap_or(1)
}

fn base64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len() / 4 * 3), 0, 0u32);
    for c in text.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}
