//! Reports of steps, runs and progress.

use hawser_sys as sys;
use serde::Serialize;

use crate::raw::struct_size;

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The weights were updated.
    Accepted,
    /// Loss or gradient norm was not finite; only the data cursor moved.
    SkippedNonFinite,
    /// Loss or gradient norm was an outlier; only the data cursor moved.
    SkippedOutlier,
    /// [`Engine::discard`](crate::Engine::discard) dropped the gradients.
    Discarded,
    /// Gradients are computed; [`Engine::commit`](crate::Engine::commit) or `discard` must follow.
    Pending,
    /// Precision fp16: loss or gradient norm was not finite; only the data cursor moved, and the loss scale
    /// follows `/loss_scale` of the config.
    SkippedOverflow,
    /// Loss or gradient norm was an outlier; the engine holds the newest checkpoint of the run again, and its
    /// data cursor is behind this step's rows.
    Rewound,
    /// The outcome is one that only a newer library has.
    Unlisted(i32),
}

impl Outcome {
    fn from_raw(outcome: i32) -> Self {
        match outcome {
            sys::HWS_STEP_ACCEPTED => Self::Accepted,
            sys::HWS_STEP_SKIPPED_NON_FINITE => Self::SkippedNonFinite,
            sys::HWS_STEP_SKIPPED_OUTLIER => Self::SkippedOutlier,
            sys::HWS_STEP_DISCARDED => Self::Discarded,
            sys::HWS_STEP_PENDING => Self::Pending,
            sys::HWS_STEP_SKIPPED_OVERFLOW => Self::SkippedOverflow,
            sys::HWS_STEP_REWOUND => Self::Rewound,
            other => Self::Unlisted(other),
        }
    }
}

/// The result of one step.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// The outcome of the step.
    pub outcome: Outcome,
    /// The number of the step, from 1; skipped and discarded steps count.
    pub step: u64,
    /// The mean loss over the unmasked targets of the global batch, in nats.
    pub loss: f64,
    /// The norm of the gradients of all distinct parameters, before clipping.
    pub grad_norm: f64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// The number of unmasked targets.
    pub tokens: u64,
    /// The data cursor after the step: rows consumed since the start.
    pub samples: u64,
    /// Steps skipped or discarded so far.
    pub skipped: u64,
    /// Wall time of the step.
    pub seconds: f64,
}

impl Step {
    pub(crate) fn empty() -> sys::hws_step_result {
        // SAFETY: a struct of numbers, for which zeros are values.
        let mut raw: sys::hws_step_result = unsafe { std::mem::zeroed() };
        raw.struct_size = struct_size::<sys::hws_step_result>();
        raw
    }

    pub(crate) fn from_raw(raw: &sys::hws_step_result) -> Self {
        Self {
            outcome: Outcome::from_raw(raw.outcome),
            step: raw.step as u64,
            loss: raw.loss,
            grad_norm: raw.grad_norm,
            learning_rate: raw.learning_rate,
            tokens: raw.tokens as u64,
            samples: raw.samples as u64,
            skipped: raw.skipped as u64,
            seconds: raw.seconds,
        }
    }
}

/// The report of one step of a run of [`Engine::train`](crate::Engine::train).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// The outcome of the step.
    pub outcome: Outcome,
    /// The number of the step, from 1; skipped and discarded steps count.
    pub step: u64,
    /// The mean loss over the unmasked targets of the global batch, in nats.
    pub loss: f64,
    /// The norm of the gradients of all distinct parameters, before clipping.
    pub grad_norm: f64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// The number of unmasked targets.
    pub tokens: u64,
    /// The data cursor after the step: rows consumed since the start.
    pub samples: u64,
    /// Steps skipped or discarded so far.
    pub skipped: u64,
    /// Wall time of the step.
    pub seconds: f64,
    /// The validation loss in nats; None if this step had no validation.
    pub validation_loss: Option<f64>,
    /// The positions of this step per second, including masked positions.
    pub tokens_per_second: f64,
    /// The step at which this run ends.
    pub total_steps: u64,
    /// True if a checkpoint of this step is written as soon as the callback returns.
    pub saved: bool,
    /// True if this step has the lowest validation loss so far.
    pub best: bool,
    /// The bytes sent in this step by the first rank of this process; 0 with one rank.
    pub communication_bytes: u64,
    /// The number of checkpoints that this engine could not write so far.
    pub save_failures: u64,
}

impl Record {
    pub(crate) fn from_raw(raw: &sys::hws_train_record) -> Self {
        Self {
            outcome: Outcome::from_raw(raw.outcome),
            step: raw.step as u64,
            loss: raw.loss,
            grad_norm: raw.grad_norm,
            learning_rate: raw.learning_rate,
            tokens: raw.tokens as u64,
            samples: raw.samples as u64,
            skipped: raw.skipped as u64,
            seconds: raw.seconds,
            validation_loss: number(raw.validation_loss),
            tokens_per_second: raw.tokens_per_second,
            total_steps: raw.total_steps as u64,
            saved: raw.saved != 0,
            best: raw.best != 0,
            communication_bytes: raw.communication_bytes as u64,
            save_failures: raw.save_failures as u64,
        }
    }
}

/// The activity of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// No long call is running.
    Idle,
    /// The engine is training.
    Train,
    /// The engine is evaluating, perhaps for the validation of a run.
    Evaluate,
    /// The engine is generating text.
    Generate,
    /// The engine is writing a checkpoint, perhaps within a run.
    Save,
    /// The engine is reading a checkpoint.
    Load,
    /// The phase is one that only a newer library has.
    Unlisted(i32),
}

impl Phase {
    fn from_raw(phase: i32) -> Self {
        match phase {
            sys::HWS_PHASE_IDLE => Self::Idle,
            sys::HWS_PHASE_TRAIN => Self::Train,
            sys::HWS_PHASE_EVAL => Self::Evaluate,
            sys::HWS_PHASE_GENERATE => Self::Generate,
            sys::HWS_PHASE_SAVE => Self::Save,
            sys::HWS_PHASE_LOAD => Self::Load,
            other => Self::Unlisted(other),
        }
    }
}

/// The progress of an engine. Numbers of the last step are None before the first step and after a load.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// The current activity.
    pub phase: Phase,
    /// The number of steps taken, including skipped and discarded steps.
    pub step: u64,
    /// The step at which the running train call ends; None if none runs.
    pub until_step: Option<u64>,
    /// The step at which the config ends a run.
    pub total_steps: u64,
    /// The data cursor: rows consumed since the start.
    pub samples: u64,
    /// The number of positions in these rows.
    pub tokens: u64,
    /// The number of steps skipped or discarded.
    pub skipped: u64,
    /// The rows evaluated or tokens generated in this phase.
    pub done: u64,
    /// The total of `done`; None if the phase counts nothing.
    pub total: Option<u64>,
    /// The loss of the last step; None also if it is not a number.
    pub loss: Option<f64>,
    /// The gradient norm of the last step.
    pub grad_norm: Option<f64>,
    /// The learning rate of the last step.
    pub learning_rate: Option<f64>,
    /// The wall time of the last step.
    pub step_seconds: Option<f64>,
    /// The positions per second of the last step.
    pub tokens_per_second: Option<f64>,
    /// The loss of the last validation of a run.
    pub validation_loss: Option<f64>,
    /// The time since the running call began; 0 if none runs.
    pub running_seconds: f64,
    /// The number of checkpoints that this engine could not write.
    pub save_failures: u64,
    /// True while a checkpoint is being written during training.
    pub saving: bool,
}

impl Progress {
    pub(crate) fn empty() -> sys::hws_progress {
        // SAFETY: a struct of numbers, for which zeros are values.
        let mut raw: sys::hws_progress = unsafe { std::mem::zeroed() };
        raw.struct_size = struct_size::<sys::hws_progress>();
        raw
    }

    pub(crate) fn from_raw(raw: &sys::hws_progress) -> Self {
        Self {
            phase: Phase::from_raw(raw.phase),
            step: raw.step as u64,
            until_step: (raw.until_step > 0).then_some(raw.until_step as u64),
            total_steps: raw.total_steps as u64,
            samples: raw.samples as u64,
            tokens: raw.tokens as u64,
            skipped: raw.skipped as u64,
            done: raw.done as u64,
            total: (raw.total > 0).then_some(raw.total as u64),
            loss: number(raw.loss),
            grad_norm: number(raw.grad_norm),
            learning_rate: number(raw.learning_rate),
            step_seconds: number(raw.step_seconds),
            tokens_per_second: number(raw.tokens_per_second),
            validation_loss: number(raw.validation_loss),
            running_seconds: raw.running_seconds,
            save_failures: raw.save_failures as u64,
            saving: raw.saving != 0,
        }
    }
}

/// The sizes of a batch. They never change during the life of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Sizes {
    /// The size of the vocabulary: tokens and targets are smaller; a target may also be
    /// [`MASKED`](crate::MASKED).
    pub vocab_size: usize,
    /// The columns of a training batch, and the largest number of columns for evaluate and forward.
    pub sequence: usize,
    /// The rows of a training batch, over all ranks and micro-batches. With `/batch/ramp`: the largest; `step_rows`
    /// of [`Engine::info`](crate::Engine::info) gives the rows of the next step.
    pub global_batch: usize,
    /// The numbers that forward returns for each token: `vocab_size`, or 1 for a model that ends in a score.
    pub outputs: usize,
}

fn number(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}
