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
    let pieces = std::iter::from_fn(|| match texts.next() {
        Ok(text) => text.map(str::to_owned),
        Err(failure) => {
            stopped = Some(failure);
            None
        }
    });
    let trained = tokenizer.train(&mut trainer, pieces).map(|tokenizer| tokenizer.to_string(true));
    if let Some(failure) = stopped {
        return Err(failure);
    }
    trained.map_err(Failure::invalid)?.map_err(Failure::invalid)
}
