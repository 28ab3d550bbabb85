//! Traces and profiles of steps.

use hawser_sys as sys;
use serde_json::Value;

use crate::raw::{check, json, text};
use crate::{Engine, Result};

/// The detail that [`Engine::set_trace`] records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Trace {
    /// Records nothing, at no cost.
    #[default]
    Off,
    /// Records when each instruction of a step begins and ends.
    Instructions,
    /// Records instructions and every kernel call in them.
    Kernels,
}

impl Trace {
    fn raw(self) -> i32 {
        match self {
            Self::Off => sys::HWS_TRACE_OFF,
            Self::Instructions => sys::HWS_TRACE_INSTRUCTIONS,
            Self::Kernels => sys::HWS_TRACE_KERNELS,
        }
    }
}

impl Engine {
    /// Sets the detail that is recorded from the next step on, and discards earlier recordings.
    pub fn set_trace(&mut self, detail: Trace) -> Result<()> {
        check(unsafe { sys::hws_engine_set_trace(self.raw_mut(), detail.raw()) })
    }

    /// Returns the last step as trace events for Perfetto and chrome://tracing. Errors:
    /// [`FailedPrecondition`](crate::Code::FailedPrecondition) if no step was recorded.
    pub fn trace(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_engine_trace(self.raw(), sys::HWS_FORMAT_JSON, out) })
    }

    /// Returns a table of how much of each rank's communication was overlapped with compute.
    pub fn trace_text(&self) -> Result<String> {
        text(|out| unsafe { sys::hws_engine_trace(self.raw(), sys::HWS_FORMAT_TEXT, out) })
    }

    /// Returns the last step as an SVG image. Errors: those of [`Engine::trace`].
    pub fn trace_svg(&self) -> Result<String> {
        text(|out| unsafe { sys::hws_engine_trace(self.raw(), sys::HWS_FORMAT_SVG, out) })
    }

    /// Returns the time by kernel since [`Trace::Kernels`] was set.
    pub fn profile(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_engine_profile(self.raw(), sys::HWS_FORMAT_JSON, out) })
    }

    /// Returns the time by kernel as a table.
    pub fn profile_text(&self) -> Result<String> {
        text(|out| unsafe { sys::hws_engine_profile(self.raw(), sys::HWS_FORMAT_TEXT, out) })
    }
}
