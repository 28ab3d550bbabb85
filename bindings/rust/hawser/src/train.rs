//! Training runs: with a closure after each step, or as an iterator over steps; data sources and metrics.

use std::ffi::{c_char, c_void};
use std::iter::FusedIterator;
use std::ops::ControlFlow;
use std::path::Path;
use std::{ptr, slice, str};

use hawser_sys as sys;

use crate::callback::{Borrowed, Pending};
use crate::raw::{check, signed};
use crate::{
    Batch, Code, Engine, Error, Evaluation, GenerateRequest, Operation, Record, Result, SourceBatch, Step,
};

impl Engine {
    /// Trains until step `until_step` (None: `train.steps` of the config), and validates and saves as the
    /// config specifies. Errors: [`Code::Cancelled`] after [`Monitor::cancel`](crate::Monitor::cancel); the
    /// run has ended after a complete step, and the engine can continue training.
    pub fn train(&mut self, until_step: Option<u64>) -> Result<()> {
        self.train_with(until_step, |_, _| ControlFlow::Continue(()))
    }

    /// Trains and calls `callback(record, running)` after each step, on this thread. `Break` ends the run
    /// after this step, with Ok.
    pub fn train_with<F>(&mut self, until_step: Option<u64>, mut callback: F) -> Result<()>
    where
        F: FnMut(&Record, &mut Running<'_>) -> ControlFlow<()>,
    {
        self.try_train_with(until_step, |record, running| Ok(callback(record, running)))
    }

    /// Trains with a callback that can fail. Its error ends the run after this step and is returned
    /// unchanged; its panic ends the run and resumes in this call.
    pub fn try_train_with<F, E>(&mut self, until_step: Option<u64>, mut callback: F) -> Result<(), E>
    where
        F: FnMut(&Record, &mut Running<'_>) -> Result<ControlFlow<()>, E>,
        E: From<Error>,
    {
        let until_step = signed("until_step", until_step.unwrap_or(0))?;
        let raw = self.raw_mut();
        let pending = self.pending.clone();
        let mut running = Running { engine: self };
        let mut call =
            Borrowed::new(|record: &sys::hws_train_record| callback(&Record::from_raw(record), &mut running));
        let mut user = (&mut call, &pending);
        let tell = train_callback_of(&user);
        // SAFETY: `user` outlives the call, which runs the callback on this thread only.
        let status = unsafe {
            sys::hws_engine_train(raw, until_step, Some(tell), ptr::from_mut(&mut user).cast(), None)
        };
        call.finish()?;
        self.finish(status).map_err(E::from)
    }

    /// Returns an iterator that takes a step for each item, until `until_step` (None: `train.steps` of the
    /// config) or the end of the source's data. The iterator does not validate or save.
    pub fn steps(&mut self, until_step: Option<u64>) -> Result<Steps<'_>> {
        let now = self.progress()?;
        Ok(Steps { until: until_step.unwrap_or(now.total_steps), at: now.step, engine: self })
    }

    /// Sets a source of training batches that replaces the config's data. A pushed batch still takes
    /// precedence.
    ///
    /// The source fills the batch of one step, on the thread that trains, and returns `Continue`, or `Break`
    /// at the end of its data. The batch gives its position, `samples`, which repeats an earlier one after a
    /// load, a discard with rewind or a failed step. The source's error ends the call and is returned
    /// unchanged ([`Error::other`] wraps any error); the step changes nothing.
    pub fn set_source<F>(&mut self, source: F) -> Result<()>
    where
        F: FnMut(&mut SourceBatch<'_>) -> Result<ControlFlow<()>> + Send + 'static,
    {
        let user = Kept::boxed(source, &self.pending);
        // SAFETY: the library owns `user` and gives it to `destroy` once, also when the call fails.
        check(unsafe {
            sys::hws_data_set_source(self.raw_mut(), Some(fill::<F>), user, Some(Kept::<F>::destroy))
        })
    }

    /// Removes the source, so that training uses the config's data again.
    pub fn clear_source(&mut self) -> Result<()> {
        // SAFETY: null means no source.
        check(unsafe { sys::hws_data_set_source(self.raw_mut(), None, ptr::null_mut(), None) })
    }

    /// Sets a callback that is called as `callback(json)` after each step, on the thread that trains. If it
    /// panics, a run of [`Engine::train`] ends and the panic resumes there.
    pub fn set_metrics<F: FnMut(&str) + Send + 'static>(&mut self, callback: F) -> Result<()> {
        let user = Kept::boxed(callback, &self.pending);
        // SAFETY: the library owns `user` and passes it to `destroy` once, as in `set_source`.
        check(unsafe {
            sys::hws_engine_set_metrics(self.raw_mut(), Some(measured::<F>), user, Some(Kept::<F>::destroy))
        })
    }

    /// Removes the metrics callback.
    pub fn clear_metrics(&mut self) -> Result<()> {
        // SAFETY: null means no callback.
        check(unsafe { sys::hws_engine_set_metrics(self.raw_mut(), None, ptr::null_mut(), None) })
    }
}

type TrainUser<'a, 'b, F, E> = (&'a mut Borrowed<F, E>, &'b Pending);

/// Returns the C function for a `user` of this type. The compiler infers the closure types, which have no
/// names.
fn train_callback_of<F, E>(
    _: &TrainUser<'_, '_, F, E>,
) -> unsafe extern "C" fn(*mut c_void, *const sys::hws_train_record) -> i32
where
    F: FnMut(&sys::hws_train_record) -> Result<ControlFlow<()>, E>,
{
    train_callback::<F, E>
}

unsafe extern "C" fn train_callback<F, E>(user: *mut c_void, record: *const sys::hws_train_record) -> i32
where
    F: FnMut(&sys::hws_train_record) -> Result<ControlFlow<()>, E>,
{
    // SAFETY: `user` comes from try_train_with, and the record is valid during this call.
    let ((call, pending), record) = unsafe { (&mut *user.cast::<TrainUser<'_, '_, F, E>>(), &*record) };
    if pending.is_set() {
        return 1; // the metrics callback has panicked
    }
    i32::from(call.hold(|callback| callback(record)) != Some(ControlFlow::Continue(())))
}

/// A closure that the library owns.
struct Kept<F> {
    callback: F,
    pending: Pending,
}

impl<F> Kept<F> {
    fn boxed(callback: F, pending: &Pending) -> *mut c_void {
        Box::into_raw(Box::new(Self { callback, pending: pending.clone() })).cast()
    }

    unsafe extern "C" fn destroy(user: *mut c_void) {
        // SAFETY: the library calls this once, with the pointer from `boxed`.
        drop(unsafe { Box::from_raw(user.cast::<Self>()) });
    }
}

unsafe extern "C" fn fill<F>(user: *mut c_void, batch: *mut sys::hws_source_batch) -> i32
where
    F: FnMut(&mut SourceBatch<'_>) -> Result<ControlFlow<()>>,
{
    // SAFETY: `user` comes from set_source; the batch and its arrays are valid during this call.
    let (kept, raw) = unsafe { (&mut *user.cast::<Kept<F>>(), &mut *batch) };
    let mut batch = unsafe { SourceBatch::from_raw(raw) };
    let answer = kept.pending.hold(|| (kept.callback)(&mut batch));
    raw.has_documents = batch.has_documents().into();
    raw.has_weights = batch.has_weights().into();
    match answer {
        Some(ControlFlow::Continue(())) => 0,
        Some(ControlFlow::Break(())) => sys::HWS_SOURCE_END,
        None => -1,
    }
}

unsafe extern "C" fn measured<F: FnMut(&str)>(user: *mut c_void, json: *const c_char, size: usize) {
    // SAFETY: `user` comes from set_metrics; the text is valid during this call.
    let (kept, json) = unsafe { (&mut *user.cast::<Kept<F>>(), slice::from_raw_parts(json.cast(), size)) };
    kept.pending.hold(|| {
        (kept.callback)(str::from_utf8(json).map_err(Error::other)?);
        Ok(())
    });
}

/// The engine within a callback of its run, with the functions that may be called there.
pub struct Running<'a> {
    engine: &'a mut Engine,
}

impl Running<'_> {
    /// Returns the engine, for the functions that take `&self`.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// Calls [`Engine::push`] for the batch of the next step.
    pub fn push(&mut self, batch: &Batch<'_>) -> Result<()> {
        self.engine.push(batch)
    }

    /// Calls [`Engine::evaluate`].
    pub fn evaluate(&mut self, max_batches: Option<u64>) -> Result<Evaluation> {
        self.engine.evaluate(max_batches)
    }

    /// Calls [`Engine::evaluate_batch`].
    pub fn evaluate_batch(&mut self, batch: &Batch<'_>) -> Result<Evaluation> {
        self.engine.evaluate_batch(batch)
    }

    /// Calls [`Engine::forward`].
    pub fn forward(&mut self, batch: &Batch<'_>) -> Result<Vec<f32>> {
        self.engine.forward(batch)
    }

    /// Calls [`Engine::generate`].
    pub fn generate(&mut self, request: &GenerateRequest<'_>) -> Result<Vec<i32>> {
        self.engine.generate(request)
    }

    /// Calls [`Engine::save`].
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.engine.save(path)
    }

    /// Calls [`Engine::save_async`].
    pub fn save_async(&mut self, path: impl AsRef<Path>) -> Result<Operation> {
        self.engine.save_async(path)
    }
}

/// An iterator over steps, which ends after an error.
#[must_use]
pub struct Steps<'a> {
    engine: &'a mut Engine,
    at: u64,
    until: u64,
}

impl Steps<'_> {
    /// Returns the engine between two steps, for example to push the next batch.
    pub fn engine(&mut self) -> &mut Engine {
        self.engine
    }
}

impl Iterator for Steps<'_> {
    type Item = Result<Step>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.until {
            return None;
        }
        let step = self.engine.train_step();
        self.at = step.as_ref().map_or(self.until, |step| step.step);
        match step {
            Err(error) if error.code() == Code::OutOfRange => None,
            step => Some(step),
        }
    }
}

impl FusedIterator for Steps<'_> {}
