//! Batches of tokens: borrowed ones that go in, and the one that a data source fills.

use std::{ptr, slice};

use hawser_sys as sys;

use crate::raw::struct_size;
use crate::{Code, Error, Result};

/// A target that masks its position: it has no loss.
pub const MASKED: i32 = -100;

/// Tokens with their targets, row-major `[rows, cols]`, borrowed from the caller.
///
/// `targets[t]` is the token that position `t` predicts: you shift, the library does not.
///
/// ```
/// let tokens = [1, 2, 3, 4, 5, 6, 7, 8];
/// let targets = [2, 3, 4, hawser::MASKED, 6, 7, 8, hawser::MASKED];
/// let batch = hawser::Batch::new(2, 4, &tokens).with_targets(&targets);
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Batch<'a> {
    rows: usize,
    cols: usize,
    tokens: &'a [i32],
    targets: Option<&'a [i32]>,
    document_begin: Option<&'a [i32]>,
    weights: Option<&'a [f32]>,
    references: Option<&'a [f32]>,
}

impl<'a> Batch<'a> {
    /// A batch without targets, which is enough for [`Engine::forward`](crate::Engine::forward).
    pub fn new(rows: usize, cols: usize, tokens: &'a [i32]) -> Self {
        Self { rows, cols, tokens, targets: None, document_begin: None, weights: None, references: None }
    }

    /// With what each position predicts, `[rows, cols]`.
    pub fn with_targets(self, targets: &'a [i32]) -> Self {
        Self { targets: Some(targets), ..self }
    }

    /// With the column where the document of each position starts, `[rows, cols]`: positions count from there,
    /// and nothing before it is seen. Without it each row is one document.
    pub fn with_document_begin(self, document_begin: &'a [i32]) -> Self {
        Self { document_begin: Some(document_begin), ..self }
    }

    /// With the weight of each target's loss, `[rows, cols]`, finite and at least 0. The divisor of the loss
    /// stays the number of unmasked targets. Without it all are 1.
    pub fn with_weights(self, weights: &'a [f32]) -> Self {
        Self { weights: Some(weights), ..self }
    }

    /// With the log-probability of each row's targets under the reference of the objective, `[rows]`: the sums of what
    /// [`Engine::logprobs`](crate::Engine::logprobs) gives. Only objectives with a reference take them.
    pub fn with_references(self, references: &'a [f32]) -> Self {
        Self { references: Some(references), ..self }
    }

    /// Rows times columns.
    pub(crate) fn positions(&self) -> Option<usize> {
        self.rows.checked_mul(self.cols)
    }

    /// The struct of the C API, valid as long as the slices.
    pub(crate) fn raw(&self) -> Result<sys::hws_batch> {
        Ok(sys::hws_batch {
            struct_size: struct_size::<sys::hws_batch>(),
            reserved: 0,
            rows: self.rows as i64,
            cols: self.cols as i64,
            tokens: self.array("tokens", Some(self.tokens))?,
            targets: self.array("targets", self.targets)?,
            document_begin: self.array("document beginnings", self.document_begin)?,
            weights: self.array("weights", self.weights)?,
            references: self.references_array()?,
        })
    }

    fn references_array(&self) -> Result<*const f32> {
        let Some(references) = self.references else { return Ok(ptr::null()) };
        if references.len() == self.rows {
            return Ok(references.as_ptr());
        }
        Err(Error::new(
            Code::InvalidArgument,
            format!(
                "the batch has {} references for {} rows: pass one for each row",
                references.len(),
                self.rows
            ),
        ))
    }

    fn array<T>(&self, name: &str, values: Option<&[T]>) -> Result<*const T> {
        let Some(values) = values else { return Ok(ptr::null()) };
        if Some(values.len()) == self.positions() {
            return Ok(values.as_ptr());
        }
        Err(Error::new(
            Code::InvalidArgument,
            format!(
                "the batch's {name} have {} elements, but the batch is {} x {}: pass rows x cols elements",
                values.len(),
                self.rows,
                self.cols
            ),
        ))
    }
}

/// The global batch of one step, for a data source to fill. At first all tokens are 0 and all targets
/// [`MASKED`], so rows that are left alone do not count.
#[derive(Debug)]
#[non_exhaustive]
pub struct SourceBatch<'a> {
    /// The step that this batch is for, from 1.
    pub step: u64,
    /// Rows consumed before it: the position in the data.
    pub samples: u64,
    /// Rows of the batch.
    pub rows: usize,
    /// Columns of the batch.
    pub cols: usize,
    /// `[rows, cols]`.
    pub tokens: &'a mut [i32],
    /// `[rows, cols]`: the token that each position predicts.
    pub targets: &'a mut [i32],
    document_begin: &'a mut [i32],
    has_documents: bool,
    weights: &'a mut [f32],
    has_weights: bool,
}

impl<'a> SourceBatch<'a> {
    /// The column where the document of each position starts, `[rows, cols]`, to be filled. A batch whose
    /// source never asks for it has one document in each row.
    pub fn document_begin(&mut self) -> &mut [i32] {
        self.has_documents = true;
        self.document_begin
    }

    /// The weight of each target's loss, `[rows, cols]`, all 1 at first, to be filled.
    pub fn weights(&mut self) -> &mut [f32] {
        self.has_weights = true;
        self.weights
    }

    /// # Safety
    /// The arrays of `raw` have rows x cols elements and are valid for `'a`.
    pub(crate) unsafe fn from_raw(raw: &sys::hws_source_batch) -> Self {
        let (rows, cols) = (raw.rows as usize, raw.cols as usize);
        // SAFETY: of this function.
        let array = |data: *mut i32| unsafe { slice::from_raw_parts_mut(data, rows * cols) };
        Self {
            step: raw.step as u64,
            samples: raw.samples as u64,
            rows,
            cols,
            tokens: array(raw.tokens),
            targets: array(raw.targets),
            document_begin: array(raw.document_begin),
            has_documents: false,
            // SAFETY: of this function.
            weights: unsafe { slice::from_raw_parts_mut(raw.weights, rows * cols) },
            has_weights: false,
        }
    }

    pub(crate) fn has_documents(&self) -> bool {
        self.has_documents
    }

    pub(crate) fn has_weights(&self) -> bool {
        self.has_weights
    }
}
