//! What steps, runs and progress report.

use hawser_sys as sys;
use serde::Serialize;

use crate::raw::struct_size;

/// What became of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The weights were updated.
    Accepted,
    /// Loss or gradient norm was not finite; only the data cursor moved.
    SkippedNonFinite,
    /// Loss or gradient norm was far off; only the data cursor moved.
    SkippedOutlier,
    /// [`Engine::discard`](crate::Engine::discard) dropped its gradients.
    Discarded,
    /// Gradients are there; [`Engine::commit`](crate::Engine::commit) or `discard` comes next.
    Pending,
    /// An outcome that a newer library has and this crate does not know.
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
            other => Self::Unlisted(other),
        }
    }
}

/// One step.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// What became of it.
    pub outcome: Outcome,
    /// Its number, from 1; skipped and discarded steps count.
    pub step: u64,
    /// Mean over the unmasked targets of the global batch, in nats.
    pub loss: f64,
    /// Of all distinct parameters, before clipping.
    pub grad_norm: f64,
    /// Of this step.
    pub learning_rate: f64,
    /// Unmasked targets.
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

/// One step of a run of [`Engine::train`](crate::Engine::train).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// What became of it.
    pub outcome: Outcome,
    /// Its number, from 1; skipped and discarded steps count.
    pub step: u64,
    /// Mean over the unmasked targets of the global batch, in nats.
    pub loss: f64,
    /// Of all distinct parameters, before clipping.
    pub grad_norm: f64,
    /// Of this step.
    pub learning_rate: f64,
    /// Unmasked targets.
    pub tokens: u64,
    /// The data cursor after the step: rows consumed since the start.
    pub samples: u64,
    /// Steps skipped or discarded so far.
    pub skipped: u64,
    /// Wall time of the step.
    pub seconds: f64,
    /// In nats; None when this step had no validation.
    pub validation_loss: Option<f64>,
    /// Of this step: positions, masked ones too.
    pub tokens_per_second: f64,
    /// The step at which this run ends.
    pub total_steps: u64,
    /// A checkpoint of this step is written as soon as the callback returns.
    pub saved: bool,
    /// The lowest validation loss so far.
    pub best: bool,
    /// Sent in this step by the first rank of this process; 0 with one rank.
    pub communication_bytes: u64,
    /// Checkpoints that this engine could not write so far.
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

/// What an engine is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// No call runs that takes long.
    Idle,
    /// Steps.
    Train,
    /// Evaluation, also the validation of a run.
    Evaluate,
    /// Text.
    Generate,
    /// A checkpoint, also that of a run.
    Save,
    /// A checkpoint is read.
    Load,
    /// A phase that a newer library has and this crate does not know.
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

/// Where an engine is. Numbers of the last step are None before the first one and after a load.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// Steps taken, skipped and discarded ones too.
    pub step: u64,
    /// The step at which the running train call ends; None if none runs.
    pub until_step: Option<u64>,
    /// The step at which the config ends a run.
    pub total_steps: u64,
    /// The data cursor: rows consumed since the start.
    pub samples: u64,
    /// Positions in these rows.
    pub tokens: u64,
    /// Steps skipped or discarded.
    pub skipped: u64,
    /// Of the phase: rows evaluated, tokens generated.
    pub done: u64,
    /// Of these there are so many; None: nothing is counted.
    pub total: Option<u64>,
    /// Of the last step; None also when it is not a number.
    pub loss: Option<f64>,
    /// Of the last step.
    pub grad_norm: Option<f64>,
    /// Of the last step.
    pub learning_rate: Option<f64>,
    /// Of the last step.
    pub step_seconds: Option<f64>,
    /// Of the last step.
    pub tokens_per_second: Option<f64>,
    /// Of the last validation of a run.
    pub validation_loss: Option<f64>,
    /// Since the running call began; 0 if none runs.
    pub running_seconds: f64,
    /// Checkpoints that this engine could not write.
    pub save_failures: u64,
    /// A checkpoint is being written beside training.
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

/// What a batch is made of. The numbers never change while the engine lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Sizes {
    /// Tokens and targets lie below it; a target may also be [`MASKED`](crate::MASKED).
    pub vocab_size: usize,
    /// Columns of a training batch, and the most that evaluation and forward take.
    pub sequence: usize,
    /// Rows of a training batch, over all ranks and micro-batches.
    pub global_batch: usize,
    /// Numbers that forward gives for each token: `vocab_size`, or 1 for a model that ends in a score.
    pub outputs: usize,
}

fn number(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}
