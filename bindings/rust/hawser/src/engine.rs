//! An engine: its making, what it says of itself, single steps.

use hawser_sys as sys;
use serde_json::Value;

use crate::callback::Pending;
use crate::raw::{check, json, struct_size, Handle};
use crate::{Batch, Comm, Config, Monitor, Progress, Result, Sizes, Step};

/// A model in training, with its optimizer and data: all ranks that this process holds.
///
/// Functions that take `&self` may run beside each other on any thread; `&mut self` keeps others out. For
/// progress, metrics and cancel from other threads there is [`Engine::monitor`]. Dropping an engine waits for a
/// save that runs, ends its threads and frees its memory.
///
/// Over a [`Comm`] of several processes, the functions with `&mut self`, [`Engine::export`], [`Engine::tensor`],
/// [`Engine::read_tensor`] and [`Engine::gradient_statistics`] are collective: every process calls them, in the
/// same order, with the same arguments.
///
/// ```no_run
/// # fn main() -> hawser::Result<()> {
/// let config = hawser::Config::preset("quickstart")?;
/// let mut engine = hawser::Engine::new(&config)?;
/// for step in engine.steps(Some(100))? {
///     let step = step?;
///     println!("{:5} {:.4}", step.step, step.loss);
/// }
/// # Ok(()) }
/// ```
///
/// A call that changes an engine cannot run beside another one:
///
/// ```compile_fail,E0499
/// # fn twice(engine: &mut hawser::Engine) -> hawser::Result<()> {
/// for _ in engine.steps(None)? {
///     engine.train_step()?; // the iterator has the engine
/// }
/// # Ok(()) }
/// ```
///
/// A callback reaches its engine by its second argument, not by capturing it:
///
/// ```compile_fail,E0500
/// # fn capture(engine: &mut hawser::Engine) -> hawser::Result<()> {
/// engine.train_with(None, |_, _| {
///     engine.save("here").unwrap();
///     std::ops::ControlFlow::Continue(())
/// })
/// # }
/// ```
#[must_use]
pub struct Engine {
    pub(crate) handle: Handle<sys::hws_engine>,
    pub(crate) pending: Pending,
}

impl Engine {
    fn make(create: impl FnOnce(*mut *mut sys::hws_engine) -> sys::hws_status) -> Result<Self> {
        Ok(Self { handle: Handle::make(sys::hws_engine_destroy, create)?, pending: Pending::default() })
    }

    /// An engine of one rank, with the initial weights or those of `init.from`.
    ///
    /// Errors: [`ConfigInvalid`](crate::Code::ConfigInvalid) (all problems at once),
    /// [`OutOfMemory`](crate::Code::OutOfMemory) (bytes needed and available, and which setting saves how
    /// much), and those of the files that the config names.
    pub fn new(config: &Config) -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_engine_create(config.raw(), 0, out) })
    }

    /// An engine that only evaluates, looks forward and generates: without gradients and optimizer state.
    pub fn new_inference(config: &Config) -> Result<Self> {
        let flags = sys::HWS_ENGINE_INFERENCE as u32;
        Self::make(|out| unsafe { sys::hws_engine_create(config.raw(), flags, out) })
    }

    /// An engine over all ranks of a comm, arranged as `mesh` of the config says. Collective: it returns in
    /// each process when all have called it.
    pub fn with_comm(config: &Config, comm: &Comm) -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_engine_create_ranks(config.raw(), comm.raw(), 0, out) })
    }

    /// The same for inference.
    pub fn with_comm_inference(config: &Config, comm: &Comm) -> Result<Self> {
        let flags = sys::HWS_ENGINE_INFERENCE as u32;
        Self::make(|out| unsafe { sys::hws_engine_create_ranks(config.raw(), comm.raw(), flags, out) })
    }

    /// An engine that trains an adapter on the weights of `base`, an engine for inference, without a copy of its own. Any
    /// number may stand on one base and run at once, each on its own thread; the base may be dropped before them.
    /// `comm`: its ranks, or none for one rank.
    ///
    /// Errors: [`FailedPrecondition`](crate::Code::FailedPrecondition) if the weights of `base` may change or are in no
    /// folder, [`ConfigInvalid`](crate::Code::ConfigInvalid) for a config that needs others.
    pub fn on(base: &Engine, config: &Config, comm: Option<&Comm>) -> Result<Self> {
        let ranks = comm.map_or(std::ptr::null(), Comm::raw);
        Self::make(|out| unsafe { sys::hws_engine_create_on(base.raw(), config.raw(), ranks, 0, out) })
    }

    /// The same for inference.
    pub fn on_inference(base: &Engine, config: &Config, comm: Option<&Comm>) -> Result<Self> {
        let ranks = comm.map_or(std::ptr::null(), Comm::raw);
        let flags = sys::HWS_ENGINE_INFERENCE as u32;
        Self::make(|out| unsafe { sys::hws_engine_create_on(base.raw(), config.raw(), ranks, flags, out) })
    }

    /// For progress, metrics and cancel from any thread, beside any call.
    pub fn monitor(&self) -> Monitor {
        Monitor::of(self.raw())
    }

    /// The model, parameters, memory by category, threads, CPU level and total steps.
    pub fn info(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_engine_info(self.raw(), out) })
    }

    /// Tokens, validation samples, the data cursor and the vocabulary of the config's data.
    pub fn data_info(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_data_info(self.raw(), out) })
    }

    /// What a batch is made of.
    pub fn sizes(&self) -> Result<Sizes> {
        let mut raw = sys::hws_sizes {
            struct_size: struct_size::<sys::hws_sizes>(),
            reserved: 0,
            vocab_size: 0,
            sequence: 0,
            global_batch: 0,
            outputs: 0,
        };
        // SAFETY: `raw` is written.
        check(unsafe { sys::hws_engine_sizes(self.raw(), &mut raw) })?;
        Ok(Sizes {
            vocab_size: raw.vocab_size as usize,
            sequence: raw.sequence as usize,
            global_batch: raw.global_batch as usize,
            outputs: raw.outputs as usize,
        })
    }

    /// Where the engine is.
    pub fn progress(&self) -> Result<Progress> {
        self.monitor().progress()
    }

    /// The last step in full: loss, times and communication.
    pub fn metrics(&self) -> Result<Value> {
        self.monitor().metrics()
    }

    /// The learning rate that the next step will use; while a step is pending, the rate of that step.
    pub fn learning_rate(&self) -> Result<f64> {
        let mut rate = 0.0;
        // SAFETY: `rate` is written.
        check(unsafe { sys::hws_engine_learning_rate(self.raw(), &mut rate) })?;
        Ok(rate)
    }

    /// Copies one global batch (`global_batch` rows of `sequence` columns, see [`Engine::sizes`]) for the next
    /// step, which takes it instead of the config's data. It waits until a step takes it.
    ///
    /// Errors: [`DataInvalid`](crate::Code::DataInvalid) for ids outside the vocabulary;
    /// [`InvalidArgument`](crate::Code::InvalidArgument) for another shape; [`Busy`](crate::Code::Busy) if a
    /// batch is waiting already.
    pub fn push(&mut self, batch: &Batch<'_>) -> Result<()> {
        let raw = batch.raw()?;
        // SAFETY: the arrays have rows x cols elements; the library copies them.
        check(unsafe { sys::hws_data_push(self.raw_mut(), &raw) })
    }

    /// One optimizer step on the next global batch: the pushed one, else that of the source, else the config's
    /// data. Errors: [`Numeric`](crate::Code::Numeric) after too many skipped steps in a row;
    /// [`OutOfRange`](crate::Code::OutOfRange) at the end of the source's data.
    pub fn train_step(&mut self) -> Result<Step> {
        self.step(|engine, result| unsafe { sys::hws_engine_train_step(engine, result) })
    }

    /// The first half of a step: computes the gradients of the next global batch and changes nothing durable.
    /// The step is then pending, until [`Engine::commit`] or [`Engine::discard`].
    pub fn forward_backward(&mut self) -> Result<Step> {
        self.step(|engine, result| unsafe { sys::hws_engine_forward_backward(engine, result) })
    }

    /// The first half of a step for an objective of your own, from its gradients by the log-probability of each
    /// target, `[rows, cols]`. Nothing is divided. The batch is a global one, without weights. Errors:
    /// [`DataInvalid`](crate::Code::DataInvalid) for a gradient that is not finite, and for one of a masked target.
    pub fn backward_with(&mut self, batch: &Batch<'_>, gradients: &[f32]) -> Result<Step> {
        let raw = batch.raw()?;
        // SAFETY: the library checks the size of the slice before it reads.
        self.step(|engine, result| unsafe {
            let bytes = std::mem::size_of_val(gradients);
            sys::hws_engine_backward_with(engine, &raw, gradients.as_ptr(), bytes, result)
        })
    }

    /// The second half: clips and updates the weights, without asking the guard.
    pub fn commit(&mut self) -> Result<Step> {
        self.step(|engine, result| unsafe { sys::hws_engine_commit(engine, result) })
    }

    /// Or drops the gradients; schedule and data cursor advance.
    pub fn discard(&mut self) -> Result<Step> {
        self.step(|engine, result| unsafe { sys::hws_engine_discard(engine, 0, result) })
    }

    /// Drops the gradients, and the same data comes again; a pushed batch must be pushed again.
    pub fn discard_and_rewind(&mut self) -> Result<Step> {
        self.step(|engine, result| unsafe { sys::hws_engine_discard(engine, 1, result) })
    }

    fn step(
        &mut self,
        call: impl FnOnce(*mut sys::hws_engine, *mut sys::hws_step_result) -> sys::hws_status,
    ) -> Result<Step> {
        let mut raw = Step::empty();
        let status = call(self.raw_mut(), &mut raw);
        self.finish(status)?;
        Ok(Step::from_raw(&raw))
    }

    /// A call that ran callbacks has returned: their failure comes before its status.
    pub(crate) fn finish(&self, status: sys::hws_status) -> Result<()> {
        self.pending.finish()?;
        check(status)
    }

    pub(crate) fn raw(&self) -> *const sys::hws_engine {
        self.handle.get()
    }

    pub(crate) fn raw_mut(&mut self) -> *mut sys::hws_engine {
        self.handle.get()
    }
}
