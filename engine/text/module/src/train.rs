//! A byte-level BPE learned from texts, in the form of GPT-2's.

use tokenizers::models::bpe::{BpeTrainer, BPE};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, NormalizerWrapper, TokenizerImpl};

use crate::contract::{Failure, Outcome, Source};

type ByteLevelBpe = TokenizerImpl<BPE, NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel>;

/// The tokenizer.json of `vocabulary` tokens, `specials` first.
pub fn train_bpe(texts: &Source, vocabulary: u32, specials: &str) -> Outcome<String> {
    let specials: Vec<String> = serde_json::from_str(specials).map_err(Failure::invalid)?;
    let special_tokens = specials.into_iter().map(|name| AddedToken::from(name, true)).collect();
    let mut trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(vocabulary as usize)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(special_tokens)
        .build();
    let bytes = ByteLevel::new(false, true, true);
    let mut tokenizer: ByteLevelBpe = TokenizerImpl::new(BPE::default());
    tokenizer
        .with_pre_tokenizer(Some(bytes))
        .with_decoder(Some(bytes))
        .with_post_processor(Some(ByteLevel::new(false, false, true)));
    let mut stopped = None;
    let mut rest = String::new();
    let pieces = std::iter::from_fn(|| {
        while rest.is_empty() {
            match texts.next() {
                Ok(text) => rest = text?.to_owned(),
                Err(failure) => {
                    stopped = Some(failure);
                    return None;
                }
            }
        }
        let behind = rest.split_off(piece_end(&rest));
        Some(std::mem::replace(&mut rest, behind))
    });
    let trained = tokenizer.train(&mut trainer, pieces).map(|tokenizer| tokenizer.to_string(true));
    if let Some(failure) = stopped {
        return Err(failure);
    }
    trained.map_err(Failure::invalid)?.map_err(Failure::invalid)
}

/// Maximum length of a word from which the vocabulary is learned: a run of white space only, or of other
/// characters only. The time of learning grows with the square of a word's length, so longer runs, such as
/// base64 or minified code, are cut.
const LONGEST_RUN: usize = 1024;

/// Returns where to cut a text: after the first run of LONGEST_RUN bytes without a change to or from white
/// space.
fn piece_end(text: &str) -> usize {
    let (mut begin, mut space) = (0, None);
    for (at, c) in text.char_indices() {
        if space != Some(c.is_whitespace()) {
            (begin, space) = (at, Some(c.is_whitespace()));
        } else if at - begin >= LONGEST_RUN {
            return at;
        }
    }
    text.len()
}
