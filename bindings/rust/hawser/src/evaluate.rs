//! Using the model: evaluation, logits, text.

use std::ffi::c_void;
use std::ops::ControlFlow;
use std::{mem, ptr};

use hawser_sys as sys;
use serde::Serialize;

use crate::callback::Borrowed;
use crate::raw::{check, signed, struct_size, text, tokens};
use crate::{Batch, Code, Engine, Error, Result, Tokenizer};

/// The result of an evaluation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// The mean loss in nats per unmasked target; NaN or infinite if the model's numbers are.
    pub loss: f64,
    /// The number of unmasked targets.
    pub tokens: u64,
}

/// A prompt, and how to continue it.
#[derive(Clone, Copy, PartialEq, Debug)]
#[must_use]
pub struct GenerateRequest<'a> {
    /// The prompt: at least one token.
    pub prompt: &'a [i32],
    /// The largest number of new tokens.
    pub max_tokens: u64,
    /// A token that ends the text; it is delivered too.
    pub stop_token: Option<i32>,
    /// More tokens that end the text.
    pub stop_tokens: &'a [i32],
    /// The sampling temperature; 0 always takes the most likely token.
    pub temperature: f64,
    /// Sample among the k most likely tokens; None: all.
    pub top_k: Option<u64>,
    /// Sample among the most likely tokens whose probabilities sum to this; 1: all.
    pub top_p: f64,
    /// The same seed gives the same text.
    pub seed: u64,
}

impl<'a> GenerateRequest<'a> {
    /// Makes a greedy request without a stop token.
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
    /// Computes the mean loss of at most `max_batches` global batches of the validation data (None: the
    /// config's number). Errors: [`FailedPrecondition`](Code::FailedPrecondition) without validation data.
    pub fn evaluate(&mut self, max_batches: Option<u64>) -> Result<Evaluation> {
        let max_batches = signed("max_batches", max_batches.unwrap_or(0))?;
        self.evaluate_raw(ptr::null(), max_batches)
    }

    /// Puts the moving averages of the weights (`optimizer.average`) in the place of the weights, or puts the
    /// weights back. While the averages are in place, evaluation, generation and exports use them, and training,
    /// saves and loads are refused.
    pub fn use_average(&mut self, on: bool) -> Result<()> {
        // SAFETY: the engine is valid.
        check(unsafe { sys::hws_engine_use_average(self.raw_mut(), i32::from(on)) })
    }

    /// Computes the mean loss of a batch with any number of rows, at most `sequence` columns, and targets.
    pub fn evaluate_batch(&mut self, batch: &Batch<'_>) -> Result<Evaluation> {
        self.evaluate_raw(&batch.raw()?, 0)
    }

    fn evaluate_raw(&mut self, batch: *const sys::hws_batch, max_batches: i64) -> Result<Evaluation> {
        let (mut loss, mut tokens) = (0.0, 0);
        // SAFETY: the batch is null or valid; both numbers are written.
        check(unsafe { sys::hws_engine_eval(self.raw_mut(), batch, max_batches, &mut loss, &mut tokens) })?;
        Ok(Evaluation { loss, tokens: tokens as u64 })
    }

    /// Returns the logits of each position, `[rows, cols, vocab_size]`; for a model that ends in a score, the
    /// scores, `[rows, cols]`. The batch may have any number of rows and at most `sequence` columns, and
    /// needs no targets.
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

    /// Writes the logits of each position to `logits`, which has rows x cols x `outputs` elements.
    pub fn forward_into(&mut self, batch: &Batch<'_>, logits: &mut [f32]) -> Result<()> {
        let raw = batch.raw()?;
        // SAFETY: the library checks the size of the slice before it writes.
        check(unsafe {
            sys::hws_engine_forward(self.raw_mut(), &raw, logits.as_mut_ptr(), mem::size_of_val(logits))
        })
    }

    /// Returns the log-probability of each target in nats, `[rows, cols]`; 0 for masked targets. The batch
    /// may have any number of rows and at most `sequence` columns, and needs targets; its weights are
    /// ignored.
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

    /// Returns the `top` likeliest next tokens of each position and their log-probabilities in nats, `[rows,
    /// cols, top]` each. The likeliest is first; of equally likely tokens, the lower id. They can be a teacher's
    /// rows ([`Batch::with_teacher`]). The batch needs no targets.
    pub fn top_logprobs(&mut self, batch: &Batch<'_>, top: usize) -> Result<(Vec<i32>, Vec<f32>)> {
        let raw = batch.raw()?;
        let size = batch.positions().and_then(|positions| positions.checked_mul(top)).ok_or_else(|| {
            Error::new(Code::InvalidArgument, format!("a batch of {} x {} is too large", raw.rows, raw.cols))
        })?;
        let (mut ids, mut logprobs) = (vec![0_i32; size], vec![0.0_f32; size]);
        // SAFETY: the library checks the sizes of the slices before it writes.
        check(unsafe {
            sys::hws_engine_top_logprobs(
                self.raw_mut(),
                &raw,
                top as i64,
                ids.as_mut_ptr(),
                mem::size_of_val(ids.as_slice()),
                logprobs.as_mut_ptr(),
                mem::size_of_val(logprobs.as_slice()),
            )
        })?;
        Ok((ids, logprobs))
    }

    /// Returns the tokens that continue the prompt.
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

    /// Generates with a callback that can fail. Its error ends the text and is returned unchanged; its panic
    /// ends the text and resumes in this call.
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

    /// Converts text to tokens, for models with a tokenizer or with a byte or character vocabulary. A
    /// tokenizer also adds the special tokens of a text. Errors:
    /// [`FailedPrecondition`](Code::FailedPrecondition) for a model that has neither;
    /// [`DataInvalid`](Code::DataInvalid) for a character that is not in the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>> {
        tokens(|out| unsafe { sys::hws_text_encode(self.raw(), text.as_ptr().cast(), text.len(), out) })
    }

    /// Returns the tokenizer of the model. Errors: [`FailedPrecondition`](Code::FailedPrecondition) without a
    /// tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::make(|out| unsafe { sys::hws_engine_tokenizer(self.raw(), out) })
    }

    /// Converts tokens to text, without special tokens. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[i32]) -> Result<String> {
        text(|out| unsafe { sys::hws_text_decode(self.raw(), tokens.as_ptr(), tokens.len(), out) })
    }
}

unsafe extern "C" fn token<F, E>(user: *mut c_void, token: i32) -> i32
where
    F: FnMut(i32) -> Result<ControlFlow<()>, E>,
{
    // SAFETY: `user` comes from try_generate_with.
    let call = unsafe { &mut *user.cast::<Borrowed<F, E>>() };
    i32::from(call.hold(|callback| callback(token)) != Some(ControlFlow::Continue(())))
}
