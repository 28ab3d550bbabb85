//! Engines: making them, inspecting them, and taking single steps.

use hawser_sys as sys;
use serde_json::Value;

use crate::callback::Pending;
use crate::raw::{check, json, struct_size, Handle};
use crate::{Batch, Comm, Config, Monitor, Progress, Result, Sizes, Step};

/// A model in training, with its optimizer, its data and all ranks of this process.
///
/// Functions that take `&self` may run concurrently on any threads; `&mut self` excludes other calls. Other
/// threads use [`Engine::monitor`] for progress, metrics and cancel. Dropping an engine waits for a running
/// save, ends the engine's threads and frees its memory.
///
/// With a [`Comm`] of several processes, the functions with `&mut self`, [`Engine::export`],
/// [`Engine::tensor`], [`Engine::read_tensor`] and [`Engine::gradient_statistics`] are collective: every
/// process must call them, in the same order, with the same arguments.
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
/// A call that changes an engine cannot run during another call:
///
/// ```compile_fail,E0499
/// # fn twice(engine: &mut hawser::Engine) -> hawser::Result<()> {
/// for _ in engine.steps(None)? {
///     engine.train_step()?; // the iterator borrows the engine
/// }
/// # Ok(()) }
/// ```
///
/// A callback must use the engine in its second argument; it cannot capture the engine:
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

    /// Makes an engine of one rank, with initial weights or the weights of `init.from`.
    ///
    /// Errors: [`ConfigInvalid`](crate::Code::ConfigInvalid) (all problems at once),
    /// [`OutOfMemory`](crate::Code::OutOfMemory) (bytes needed and available, and which setting saves how
    /// much), and errors of the files that the config names.
    pub fn new(config: &Config) -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_engine_create(config.raw(), 0, out) })
    }

    /// Makes an engine that only evaluates, forwards and generates: it has no gradients and no optimizer
    /// state.
    pub fn new_inference(config: &Config) -> Result<Self> {
        let flags = sys::HWS_ENGINE_INFERENCE as u32;
        Self::make(|out| unsafe { sys::hws_engine_create(config.raw(), flags, out) })
    }

    /// Makes an engine over all ranks of a comm, arranged by the config's `mesh`. This call is collective: it
    /// returns when all processes have called it.
    pub fn with_comm(config: &Config, comm: &Comm) -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_engine_create_ranks(config.raw(), comm.raw(), 0, out) })
    }

    /// Makes an engine for inference over all ranks of a comm.
    pub fn with_comm_inference(config: &Config, comm: &Comm) -> Result<Self> {
        let flags = sys::HWS_ENGINE_INFERENCE as u32;
        Self::make(|out| unsafe { sys::hws_engine_create_ranks(config.raw(), comm.raw(), flags, out) })
    }

    /// Makes an engine that trains an adapter and borrows the frozen weights of `base`, an engine for
    /// inference, without copying them. Any number of engines may borrow from one base and run at once, each
    /// on its own thread; the base may be dropped before them. `comm`: the ranks of the new engine; None: one
    /// rank.
    ///
    /// Errors: [`FailedPrecondition`](crate::Code::FailedPrecondition) if the weights of `base` may change or are in no
    /// folder, [`ConfigInvalid`](crate::Code::ConfigInvalid) for a config that needs other weights.
    pub fn on(base: &Engine, config: &Config, comm: Option<&Comm>) -> Result<Self> {
        let ranks = comm.map_or(std::ptr::null(), Comm::raw);
        Self::make(|out| unsafe { sys::hws_engine_create_on(base.raw(), config.raw(), ranks, 0, out) })
    }

    /// Makes an engine for inference that borrows from `base`.
    pub fn on_inference(base: &Engine, config: &Config, comm: Option<&Comm>) -> Result<Self> {
        let ranks = comm.map_or(std::ptr::null(), Comm::raw);
        let flags = sys::HWS_ENGINE_INFERENCE as u32;
        Self::make(|out| unsafe { sys::hws_engine_create_on(base.raw(), config.raw(), ranks, flags, out) })
    }

    /// Returns a monitor for progress, metrics and cancel, from any thread and during any call.
    pub fn monitor(&self) -> Monitor {
        Monitor::of(self.raw())
    }

    /// Returns the model, parameters, memory by category, threads, CPU level and total steps.
    pub fn info(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_engine_info(self.raw(), out) })
    }

    /// Returns tokens, validation samples, the data cursor and the vocabulary of the config's data.
    pub fn data_info(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_data_info(self.raw(), out) })
    }

    /// Returns the sizes of a batch.
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

    /// Returns the engine's progress.
    pub fn progress(&self) -> Result<Progress> {
        self.monitor().progress()
    }

    /// Returns the metrics of the last step: loss, times and communication.
    pub fn metrics(&self) -> Result<Value> {
        self.monitor().metrics()
    }

    /// Returns the learning rate of the pending step, or else of the next step.
    pub fn learning_rate(&self) -> Result<f64> {
        let mut rate = 0.0;
        // SAFETY: `rate` is written.
        check(unsafe { sys::hws_engine_learning_rate(self.raw(), &mut rate) })?;
        Ok(rate)
    }

    /// Copies one global batch (`global_batch` rows of `sequence` columns, see [`Engine::sizes`]) for the
    /// next step, which uses it instead of the config's data. The batch waits until a step uses it.
    ///
    /// Errors: [`DataInvalid`](crate::Code::DataInvalid) for ids outside the vocabulary;
    /// [`InvalidArgument`](crate::Code::InvalidArgument) for the wrong shape; [`Busy`](crate::Code::Busy) if
    /// a batch is already waiting.
    pub fn push(&mut self, batch: &Batch<'_>) -> Result<()> {
        let raw = batch.raw()?;
        // SAFETY: the arrays have rows x cols elements; the library copies them.
        check(unsafe { sys::hws_data_push(self.raw_mut(), &raw) })
    }

    /// Takes one optimizer step on the pushed batch; without one, on the source's batch or the config's data.
    /// Errors: [`Numeric`](crate::Code::Numeric) after too many skipped steps in a row;
    /// [`OutOfRange`](crate::Code::OutOfRange) at the end of the source's data.
    pub fn train_step(&mut self) -> Result<Step> {
        self.step(|engine, result| unsafe { sys::hws_engine_train_step(engine, result) })
    }

    /// Runs the gradient phase of a step: computes the gradients of the next global batch and changes nothing
    /// durable. The step is then pending, until [`Engine::commit`] or [`Engine::discard`].
    pub fn forward_backward(&mut self) -> Result<Step> {
        self.step(|engine, result| unsafe { sys::hws_engine_forward_backward(engine, result) })
    }

    /// Runs the gradient phase of a step for your own objective. `gradients`: the derivative of the objective
    /// by the log-probability of each target, `[rows, cols]`; the engine does not divide it by the number of
    /// targets. The batch must be a global batch without weights. Errors:
    /// [`DataInvalid`](crate::Code::DataInvalid) for a gradient that is not finite, and for a nonzero
    /// gradient of a masked target.
    pub fn backward_with(&mut self, batch: &Batch<'_>, gradients: &[f32]) -> Result<Step> {
        let raw = batch.raw()?;
        // SAFETY: the library checks the size of the slice before it reads.
        self.step(|engine, result| unsafe {
            let bytes = std::mem::size_of_val(gradients);
            sys::hws_engine_backward_with(engine, &raw, gradients.as_ptr(), bytes, result)
        })
    }

    /// Runs the update phase of the pending step: clips and updates the weights. The guard is not consulted.
    pub fn commit(&mut self) -> Result<Step> {
        self.step(|engine, result| unsafe { sys::hws_engine_commit(engine, result) })
    }

    /// Drops the gradients of the pending step; schedule and data cursor advance.
    pub fn discard(&mut self) -> Result<Step> {
        self.step(|engine, result| unsafe { sys::hws_engine_discard(engine, 0, result) })
    }

    /// Drops the gradients of the pending step, and uses the same data again; a pushed batch must be pushed
    /// again.
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

    /// Finishes a call that ran callbacks: their failure takes precedence over its status.
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
