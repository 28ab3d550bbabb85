//! Monitor: access to an engine from other threads.

use hawser_sys as sys;
use serde_json::Value;

use crate::raw::{check, json, text};
use crate::{Progress, Result};

/// Watches an engine, and cancels its run, from any thread and during any call. A monitor is a number that
/// can be copied. It does not keep the engine alive: after the engine is dropped, the monitor's functions
/// return [`Code::BadHandle`](crate::Code::BadHandle).
///
/// ```no_run
/// # fn run(engine: &mut hawser::Engine) -> hawser::Result<()> {
/// let monitor = engine.monitor();
/// std::thread::spawn(move || {
///     std::thread::sleep(std::time::Duration::from_secs(60));
///     monitor.cancel();
/// });
/// engine.train(None)
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Monitor(*const sys::hws_engine);

// SAFETY: the handle is a number that the library checks; these functions work at any time, on any thread.
unsafe impl Send for Monitor {}
unsafe impl Sync for Monitor {}

impl Monitor {
    pub(crate) fn of(engine: *const sys::hws_engine) -> Self {
        Self(engine)
    }

    /// Returns the engine's progress. Neither waits for a step nor allocates memory.
    pub fn progress(&self) -> Result<Progress> {
        let mut raw = Progress::empty();
        // SAFETY: `raw` is written.
        check(unsafe { sys::hws_engine_progress(self.0, &mut raw) })?;
        Ok(Progress::from_raw(&raw))
    }

    /// Returns the metrics of the last step, including the bytes sent to other ranks.
    pub fn metrics(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_engine_metrics(self.0, out) })
    }

    /// Ends a running train, evaluate or generate call at its next step boundary; that call returns
    /// [`Code::Cancelled`](crate::Code::Cancelled) and the engine can continue training. Does nothing if none
    /// runs.
    pub fn cancel(&self) {
        // SAFETY: the call is one atomic store, and a handle that no longer exists is ignored.
        _ = unsafe { sys::hws_engine_cancel(self.0) };
    }

    /// Returns the last calls of each rank to other ranks. Works even during a call that hangs.
    pub fn flight(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_engine_flight(self.0, sys::HWS_FORMAT_JSON, out) })
    }

    /// Returns the last few calls of each rank to other ranks, as a table.
    pub fn flight_text(&self) -> Result<String> {
        text(|out| unsafe { sys::hws_engine_flight(self.0, sys::HWS_FORMAT_TEXT, out) })
    }
}
