//! Batches of tokens: `Batch` borrows the caller's arrays, and `SourceBatch` is filled by a data source.

use std::{ptr, slice};

use hawser_sys as sys;

use crate::raw::struct_size;
use crate::{Code, Error, Result};

/// The target that masks a position, which then has no loss.
pub const MASKED: i32 = -100;

/// Tokens with their targets, row-major `[rows, cols]`, borrowed from the caller.
///
/// `targets[t]` is the token that position `t` predicts: your program shifts the tokens, the library does
/// not.
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
    teacher: Option<(usize, &'a [i32], &'a [f32])>,
}

impl<'a> Batch<'a> {
    /// Makes a batch without targets, which is enough for [`Engine::forward`](crate::Engine::forward).
    pub fn new(rows: usize, cols: usize, tokens: &'a [i32]) -> Self {
        Self {
            rows,
            cols,
            tokens,
            targets: None,
            document_begin: None,
            weights: None,
            references: None,
            teacher: None,
        }
    }

    /// Adds the token that each position predicts, `[rows, cols]`.
    pub fn with_targets(self, targets: &'a [i32]) -> Self {
        Self { targets: Some(targets), ..self }
    }

    /// Adds the column where the document of each position starts, `[rows, cols]`. Positions count from that
    /// column, and attention does not reach before it. By default, each row is one document.
    pub fn with_document_begin(self, document_begin: &'a [i32]) -> Self {
        Self { document_begin: Some(document_begin), ..self }
    }

    /// Adds the weight of each target's loss, `[rows, cols]`, finite and at least 0. The divisor of the loss
    /// remains the number of unmasked targets. By default, all weights are 1.
    pub fn with_weights(self, weights: &'a [f32]) -> Self {
        Self { weights: Some(weights), ..self }
    }

    /// Adds one number per row, `[rows]`, for objectives with a reference model: the sum of the reference
    /// model's [`Engine::logprobs`](crate::Engine::logprobs) over the row's targets.
    pub fn with_references(self, references: &'a [f32]) -> Self {
        Self { references: Some(references), ..self }
    }

    /// Adds the rows of a teacher, `[rows, cols, top]` each: for `/teacher/top`, what
    /// [`Engine::top_logprobs`](crate::Engine::top_logprobs) of the teacher returns for the same tokens.
    pub fn with_teacher(self, top: usize, ids: &'a [i32], logprobs: &'a [f32]) -> Self {
        Self { teacher: Some((top, ids, logprobs)), ..self }
    }

    /// Returns rows times columns, or None if the product overflows.
    pub(crate) fn positions(&self) -> Option<usize> {
        self.rows.checked_mul(self.cols)
    }

    /// Returns the struct of the C API, which is valid as long as the slices.
    pub(crate) fn raw(&self) -> Result<sys::hws_batch> {
        let (teacher_top, teacher_ids, teacher_logprobs) = self.teacher_arrays()?;
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
            teacher_top,
            teacher_ids,
            teacher_logprobs,
        })
    }

    fn teacher_arrays(&self) -> Result<(i64, *const i32, *const f32)> {
        let Some((top, ids, logprobs)) = self.teacher else { return Ok((0, ptr::null(), ptr::null())) };
        let size = self.positions().and_then(|positions| positions.checked_mul(top));
        if Some(ids.len()) == size && Some(logprobs.len()) == size {
            return Ok((top as i64, ids.as_ptr(), logprobs.as_ptr()));
        }
        Err(Error::new(
            Code::InvalidArgument,
            format!(
                "the batch has {} ids and {} log-probabilities of a teacher, but {} x {} x {} are needed",
                ids.len(),
                logprobs.len(),
                self.rows,
                self.cols,
                top
            ),
        ))
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
/// [`MASKED`], so rows that are not filled do not count.
#[derive(Debug)]
#[non_exhaustive]
pub struct SourceBatch<'a> {
    /// The number of the step that this batch is for, from 1.
    pub step: u64,
    /// The rows consumed before this batch, which is the position in the data.
    pub samples: u64,
    /// Rows of the batch.
    pub rows: usize,
    /// Columns of the batch.
    pub cols: usize,
    /// The tokens, `[rows, cols]`.
    pub tokens: &'a mut [i32],
    /// The token that each position predicts, `[rows, cols]`.
    pub targets: &'a mut [i32],
    document_begin: &'a mut [i32],
    has_documents: bool,
    weights: &'a mut [f32],
    has_weights: bool,
}

impl<'a> SourceBatch<'a> {
    /// Returns the array for the column where the document of each position starts, `[rows, cols]`. If the
    /// source does not call this method, each row is one document.
    pub fn document_begin(&mut self) -> &mut [i32] {
        self.has_documents = true;
        self.document_begin
    }

    /// Returns the array for the weight of each target's loss, `[rows, cols]`, all 1 at first.
    pub fn weights(&mut self) -> &mut [f32] {
        self.has_weights = true;
        self.weights
    }

    /// # Safety
    /// The arrays of `raw` have rows x cols elements and are valid for `'a`.
    pub(crate) unsafe fn from_raw(raw: &sys::hws_source_batch) -> Self {
        let (rows, cols) = (raw.rows as usize, raw.cols as usize);
        // SAFETY: the caller guarantees the size and the lifetime of the arrays.
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
            // SAFETY: the caller guarantees the size and the lifetime of the arrays.
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
