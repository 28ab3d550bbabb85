//! Tokenizers: convert between text and tokens of a model.

use std::collections::BTreeMap;
use std::path::Path;

use hawser_sys as sys;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::raw::{c_path, c_string, check, json, text, tokens, Handle};
use crate::{library, Code, Error, Result};

/// The tokenizer and the chat template of a model. It needs the text module, and works on any thread.
pub struct Tokenizer(Handle<sys::hws_tokenizer>);

/// The properties of a [`Tokenizer`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenizerInfo {
    /// The greatest token id plus 1.
    pub vocab_size: usize,
    /// The token that ends a text.
    pub end_of_text: Option<i32>,
    /// All tokens that end an answer of the model.
    pub end_tokens: Vec<i32>,
    /// The special tokens by name, such as "bos_token".
    pub special_tokens: BTreeMap<String, String>,
    /// True if there is a chat template.
    pub chat_template: bool,
    /// A digest of the tokenizer; different tokenizers have different digests.
    pub digest: String,
    /// A digest of the chat template.
    pub template_digest: Option<String>,
}

impl Tokenizer {
    /// Opens a tokenizer.json, or the tokenizer of a Hugging Face folder or of a checkpoint. Errors:
    /// [`NotFound`](Code::NotFound) without a tokenizer.json, [`DataInvalid`](Code::DataInvalid) for a file
    /// that cannot be read, [`Unavailable`](Code::Unavailable) without the text module.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = c_path("path", path.as_ref())?;
        Self::make(|out| unsafe { sys::hws_tokenizer_open(path.as_ptr(), out) })
    }

    pub(crate) fn make(create: impl FnOnce(*mut *mut sys::hws_tokenizer) -> sys::hws_status) -> Result<Self> {
        Handle::make(sys::hws_tokenizer_destroy, create).map(Self)
    }

    /// Trains a byte-level BPE of at most `vocab_size` tokens on UTF-8 files, with `special_tokens` first,
    /// and writes it as a tokenizer.json. Equal files give an identical tokenizer.json. Errors:
    /// [`AlreadyExists`](Code::AlreadyExists), [`DataInvalid`](Code::DataInvalid).
    pub fn train<P: AsRef<Path>>(
        files: &[P],
        vocab_size: usize,
        special_tokens: &[&str],
        path: impl AsRef<Path>,
    ) -> Result<()> {
        library::ready()?;
        let names: Option<Vec<&str>> = files.iter().map(|file| file.as_ref().to_str()).collect();
        let names =
            names.ok_or_else(|| Error::new(Code::InvalidArgument, "the path of a file is not UTF-8"))?;
        let files = c_string("files", Value::from(names).to_string())?;
        let specials = c_string("special_tokens", Value::from(special_tokens).to_string())?;
        let path = c_path("path", path.as_ref())?;
        check(unsafe {
            sys::hws_tokenizer_train(files.as_ptr(), vocab_size as i64, specials.as_ptr(), path.as_ptr())
        })
    }

    /// Returns the tokenizer's properties.
    pub fn info(&self) -> Result<TokenizerInfo> {
        json(|out| unsafe { sys::hws_tokenizer_info(self.0.get(), out) })
    }

    /// Returns the tokens of a text. `add_special`: add the special tokens that begin or end a text.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<i32>> {
        let flags = if add_special { sys::HWS_TEXT_ADD_SPECIAL as u32 } else { 0 };
        tokens(|out| unsafe {
            sys::hws_tokenizer_encode(self.0.get(), text.as_ptr().cast(), text.len(), flags, out)
        })
    }

    /// Converts tokens to text, including special tokens.
    pub fn decode(&self, tokens: &[i32]) -> Result<String> {
        self.decoded(tokens, 0)
    }

    /// Converts tokens to text, without special tokens and without an incomplete character at the end. When
    /// tokens are appended, this text only grows.
    pub fn decode_whole(&self, tokens: &[i32]) -> Result<String> {
        self.decoded(tokens, (sys::HWS_TEXT_SKIP_SPECIAL | sys::HWS_TEXT_WHOLE) as u32)
    }

    fn decoded(&self, tokens: &[i32], flags: u32) -> Result<String> {
        text(|out| unsafe {
            sys::hws_tokenizer_decode(self.0.get(), tokens.as_ptr(), tokens.len(), flags, out)
        })
    }

    /// Renders a chat as text with the model's template. `chat`: an object with "messages", and optionally
    /// "tools", "add_generation_prompt" and other variables. Errors:
    /// [`FailedPrecondition`](Code::FailedPrecondition) without a template,
    /// [`DataInvalid`](Code::DataInvalid) if the template refuses the chat.
    pub fn render(&self, chat: &Value) -> Result<String> {
        let chat = c_string("chat", chat.to_string())?;
        text(|out| unsafe { sys::hws_tokenizer_render(self.0.get(), chat.as_ptr(), out) })
    }
}
