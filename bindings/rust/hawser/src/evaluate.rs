//! Looking at the model: evaluation, logits, text.

use std::ffi::c_void;
use std::ops::ControlFlow;
use std::{mem, ptr};

use hawser_sys as sys;
use serde::Serialize;

use crate::callback::Borrowed;
use crate::raw::{check, signed, struct_size, text, tokens};
use crate::{Batch, Code, Engine, Error, Result, Tokenizer};

/// A mean loss.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// Nats per unmasked target; NaN or infinite if the model's numbers are.
    pub loss: f64,
    /// Unmasked targets.
    pub tokens: u64,
}

/// A prompt, and how to go on from it.
#[derive(Clone, Copy, PartialEq, Debug)]
#[must_use]
pub struct GenerateRequest<'a> {
    /// At least one token.
    pub prompt: &'a [i32],
    /// New tokens, at most.
    pub max_tokens: u64,
    /// Ends the text, and is delivered.
    pub stop_token: Option<i32>,
    /// More tokens that end the text.
    pub stop_tokens: &'a [i32],
    /// 0: greedy.
    pub temperature: f64,
    /// Sample among the k likeliest tokens; None: all.
    pub top_k: Option<u64>,
    /// Sample among the likeliest tokens that sum to this probability; 1: all.
    pub top_p: f64,
    /// The same seed gives the same text.
    pub seed: u64,
}

impl<'a> GenerateRequest<'a> {
    /// Greedy, without a stop token.
    pub fn new(prompt: &'a [i32], max_tokens: u64) -> Self {
        Self {
            prompt,
            max_tokens,
            stop_token: None,
            stop_tokens: &[],
            temperature: 0.0,
            top_k: None,
            top_p: 1.0,
            seed: 0,
        }
    }

    fn raw(&self) -> Result<sys::hws_generate_request> {
        Ok(sys::hws_generate_request {
            struct_size: struct_size::<sys::hws_generate_request>(),
            stop_token: self.stop_token.unwrap_or(-1),
            prompt: self.prompt.as_ptr(),
            prompt_length: self.prompt.len() as i64,
            max_tokens: signed("max_tokens", self.max_tokens)?,
            temperature: self.temperature,
            top_k: signed("top_k", self.top_k.unwrap_or(0))?,
            top_p: self.top_p,
            seed: self.seed,
            stop_tokens: self.stop_tokens.as_ptr(),
            stop_count: self.stop_tokens.len() as i64,
        })
    }
}

impl Engine {
    /// The mean loss over the validation data, at most `max_batches` global batches (None: as the config says).
    /// Errors: [`FailedPrecondition`](Code::FailedPrecondition) without validation data.
    pub fn evaluate(&mut self, max_batches: Option<u64>) -> Result<Evaluation> {
        let max_batches = signed("max_batches", max_batches.unwrap_or(0))?;
        self.evaluate_raw(ptr::null(), max_batches)
    }

    /// The mean loss of a batch: any rows, at most `sequence` columns, with targets.
    pub fn evaluate_batch(&mut self, batch: &Batch<'_>) -> Result<Evaluation> {
        self.evaluate_raw(&batch.raw()?, 0)
    }

    fn evaluate_raw(&mut self, batch: *const sys::hws_batch, max_batches: i64) -> Result<Evaluation> {
        let (mut loss, mut tokens) = (0.0, 0);
        // SAFETY: the batch is null or valid; both numbers are written.
        check(unsafe { sys::hws_engine_eval(self.raw_mut(), batch, max_batches, &mut loss, &mut tokens) })?;
        Ok(Evaluation { loss, tokens: tokens as u64 })
    }

    /// The logits of each position, `[rows, cols, vocab_size]`; of a model that ends in a score the scores, `[rows, cols]`. The batch has any rows, at most `sequence`
    /// columns, and needs no targets.
    pub fn forward(&mut self, batch: &Batch<'_>) -> Result<Vec<f32>> {
        let raw = batch.raw()?;
        let size = batch.positions().and_then(|positions| positions.checked_mul(self.sizes().ok()?.outputs));
        let size = size.ok_or_else(|| {
            Error::new(Code::InvalidArgument, format!("a batch of {} x {} is too large", raw.rows, raw.cols))
        })?;
        let mut logits = vec![0.0; size];
        self.forward_into(batch, &mut logits)?;
        Ok(logits)
    }

    /// The same into memory of the caller, which has rows x cols x `outputs` elements.
    pub fn forward_into(&mut self, batch: &Batch<'_>, logits: &mut [f32]) -> Result<()> {
        let raw = batch.raw()?;
        // SAFETY: the library checks the size of the slice before it writes.
        check(unsafe {
            sys::hws_engine_forward(self.raw_mut(), &raw, logits.as_mut_ptr(), mem::size_of_val(logits))
        })
    }

    /// The log-probability of each target, `[rows, cols]`, nats; 0 where it is masked. The batch has any rows, at
    /// most `sequence` columns, and targets; its weights do not matter.
    pub fn logprobs(&mut self, batch: &Batch<'_>) -> Result<Vec<f32>> {
        let raw = batch.raw()?;
        let mut logprobs = vec![0.0_f32; (raw.rows * raw.cols) as usize];
        // SAFETY: the library checks the size of the slice before it writes.
        check(unsafe {
            let bytes = mem::size_of_val(logprobs.as_slice());
            sys::hws_engine_logprobs(self.raw_mut(), &raw, logprobs.as_mut_ptr(), bytes)
        })?;
        Ok(logprobs)
    }

    /// The tokens that continue the prompt.
    pub fn generate(&mut self, request: &GenerateRequest<'_>) -> Result<Vec<i32>> {
        let mut tokens = Vec::new();
        self.generate_with(request, |token| {
            tokens.push(token);
            ControlFlow::Continue(())
        })?;
        Ok(tokens)
    }

    /// Calls `callback(token)` for each new token, on this thread. `Break` ends the text.
    pub fn generate_with<F>(&mut self, request: &GenerateRequest<'_>, mut callback: F) -> Result<()>
    where
        F: FnMut(i32) -> ControlFlow<()>,
    {
        self.try_generate_with(request, |token| Ok(callback(token)))
    }

    /// The same with a callback that can fail. An error ends the text and is returned as itself; a panic ends it
    /// too and goes on from here.
    pub fn try_generate_with<F, E>(&mut self, request: &GenerateRequest<'_>, callback: F) -> Result<(), E>
    where
        F: FnMut(i32) -> Result<ControlFlow<()>, E>,
        E: From<Error>,
    {
        let raw = request.raw()?;
        let mut call = Borrowed::<F, E>::new(callback);
        let user = ptr::from_mut(&mut call).cast();
        // SAFETY: `call` outlives this call, which runs the callback on this thread only.
        let status =
            unsafe { sys::hws_engine_generate(self.raw_mut(), &raw, Some(token::<F, E>), user, None) };
        call.finish()?;
        check(status).map_err(E::from)
    }

    /// Text to tokens, for models with a tokenizer, which adds the special tokens of a text, or with a byte or
    /// character vocabulary. Errors: [`FailedPrecondition`](Code::FailedPrecondition) for a model that has
    /// neither; [`DataInvalid`](Code::DataInvalid) for a character that is not in the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>> {
        tokens(|out| unsafe { sys::hws_text_encode(self.raw(), text.as_ptr().cast(), text.len(), out) })
    }

    /// The tokenizer of the model. Errors: [`FailedPrecondition`](Code::FailedPrecondition) without one.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::make(|out| unsafe { sys::hws_engine_tokenizer(self.raw(), out) })
    }

    /// And back, without special tokens. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[i32]) -> Result<String> {
        text(|out| unsafe { sys::hws_text_decode(self.raw(), tokens.as_ptr(), tokens.len(), out) })
    }
}

unsafe extern "C" fn token<F, E>(user: *mut c_void, token: i32) -> i32
where
    F: FnMut(i32) -> Result<ControlFlow<()>, E>,
{
    // SAFETY: `user` is that of try_generate_with.
    let call = unsafe { &mut *user.cast::<Borrowed<F, E>>() };
    i32::from(call.hold(|callback| callback(token)) != Some(ControlFlow::Continue(())))
}
