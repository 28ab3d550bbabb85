//! The loaded library and its version, this machine's devices, and the interrupt poll and progress callback
//! of a thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{c_char, c_void, CStr};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::OnceLock;
use std::{ptr, slice, time::Duration};

use hawser_sys as sys;
use serde_json::Value;

use crate::raw::{c_string, check, json};
use crate::{Code, Error, Result};

/// The ABI number that this crate was built for.
pub const ABI_VERSION: u32 = sys::HWS_ABI_VERSION as u32;

/// Returns the ABI number of the loaded library.
pub fn library_abi() -> u32 {
    // SAFETY: the function takes no arguments.
    unsafe { sys::hws_library_abi() }
}

/// Returns the version of the loaded library, such as `"0.1.0"`.
pub fn library_version() -> &'static str {
    // SAFETY: the text has static storage.
    unsafe { CStr::from_ptr(sys::hws_library_version()) }.to_str().unwrap_or("")
}

/// Returns the version, the compiler, the CPU level of this machine, and the modules that were found.
pub fn library_info() -> Result<Value> {
    json(|out| unsafe { sys::hws_library_info(out) })
}

/// Returns Ok if the loaded library has the ABI of this crate. Every function that makes an object calls this
/// first.
pub(crate) fn ready() -> Result<()> {
    static PROBLEM: OnceLock<Option<String>> = OnceLock::new();
    let problem = PROBLEM.get_or_init(|| {
        (library_abi() != ABI_VERSION).then(|| {
            format!(
                "this program was built for ABI {ABI_VERSION} of Hawser, but the loaded library {} has ABI {}: \
                 install libhawser 0.1, or set LD_LIBRARY_PATH to its folder",
                library_path(),
                library_abi()
            )
        })
    });
    match problem {
        None => Ok(()),
        Some(text) => Err(Error::new(Code::AbiMismatch, text.as_str())),
    }
}

/// Returns the file of the loaded library.
fn library_path() -> String {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is written if the result is not 0; the name lives as long as the library is loaded.
    unsafe {
        let found = libc::dladdr(sys::hws_library_abi as *const c_void, info.as_mut_ptr());
        let name = info.assume_init().dli_fname;
        if found == 0 || name.is_null() {
            return "(of unknown path)".to_owned();
        }
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

/// Returns the devices of this machine: the CPU, then the GPUs, or one entry with the reason why there are
/// none.
pub fn devices() -> Result<Vec<Value>> {
    json(|out| unsafe { sys::hws_device_list(out) })
}

/// Measures the CPU with `threads` threads (0: default) for about `time` (zero: half a second): the peaks of
/// matrix products in GFLOP/s, and the memory bandwidth in GB/s.
pub fn measure_cpu(threads: u16, time: Duration) -> Result<Value> {
    json(|out| unsafe { sys::hws_device_measure(threads.into(), time.as_secs_f64(), out) })
}

/// Measures the peak of matrix products in operations per second, with `threads` threads of the CPU (0:
/// default), in precision "fp32" or "bf16". Takes about `time` (zero: 0.1 s).
pub fn peak_flops(threads: u16, precision: &str, time: Duration) -> Result<f64> {
    ready()?;
    let precision = c_string("precision", precision)?;
    let mut flops = 0.0;
    // SAFETY: the text ends with a NUL, and `flops` is written.
    check(unsafe {
        sys::hws_device_peak(threads.into(), precision.as_ptr(), time.as_secs_f64(), &mut flops)
    })?;
    Ok(flops)
}

thread_local! {
    /// The panic of this thread's interrupt poll or progress callback, until the call that ran it returns.
    static INTERRUPT_PANIC: RefCell<Option<Box<dyn Any + Send>>> = const { RefCell::new(None) };
}

/// Sets the interrupt poll of this thread. Long calls on this thread invoke it, at most every 20 ms. If it
/// returns `true`, the call ends with [`Code::Cancelled`]. If it panics, the call ends and the panic resumes.
///
/// The poll may use a [`Monitor`](crate::Monitor), and set another poll. It is dropped when another poll is
/// set and it has returned, or when the thread ends.
pub fn set_thread_interrupt<F: FnMut() -> bool + 'static>(poll: F) -> Result<()> {
    unsafe extern "C" fn ask<F: FnMut() -> bool>(user: *mut c_void) -> i32 {
        // SAFETY: `user` is the box below, which only this thread uses.
        let poll = unsafe { &mut *user.cast::<F>() };
        catch_unwind(AssertUnwindSafe(poll)).map_or_else(
            |panic| {
                INTERRUPT_PANIC.with(|slot| *slot.borrow_mut() = Some(panic));
                1
            },
            i32::from,
        )
    }
    ready()?;
    let user = Box::into_raw(Box::new(poll)).cast();
    // SAFETY: the library owns `user` from here on and gives it to `drop_box` once, also when the call fails.
    check(unsafe { sys::hws_thread_set_interrupt(Some(ask::<F>), user, Some(drop_box::<F>)) })
}

/// Removes the interrupt poll of this thread.
pub fn clear_thread_interrupt() -> Result<()> {
    ready()?;
    // SAFETY: null means no poll.
    check(unsafe { sys::hws_thread_set_interrupt(None, ptr::null_mut(), None) })
}

/// Sets the progress callback of this thread. Making an engine calls it while the log-probabilities of the
/// reference of `/objective` are computed, at most ten times a second, with `{"phase": "references", "done",
/// "total"}`. If it returns [`ControlFlow::Break`], the call ends with [`Code::Cancelled`]. If it panics, the
/// call ends and the panic resumes. It is dropped when another one is set, or when the thread ends.
pub fn set_thread_progress<F: FnMut(&Value) -> ControlFlow<()> + 'static>(progress: F) -> Result<()> {
    unsafe extern "C" fn tell<F: FnMut(&Value) -> ControlFlow<()>>(
        user: *mut c_void,
        json: *const c_char,
        size: usize,
    ) -> i32 {
        // SAFETY: `user` is the box below, which only this thread uses; the text is valid during this call.
        let (progress, json) =
            unsafe { (&mut *user.cast::<F>(), slice::from_raw_parts(json.cast::<u8>(), size)) };
        catch_unwind(AssertUnwindSafe(|| progress(&serde_json::from_slice(json).unwrap_or_default())))
            .map_or_else(
                |panic| {
                    INTERRUPT_PANIC.with(|slot| *slot.borrow_mut() = Some(panic));
                    1
                },
                |flow| i32::from(flow.is_break()),
            )
    }
    ready()?;
    let user = Box::into_raw(Box::new(progress)).cast();
    // SAFETY: the library owns `user` from here on and gives it to `drop_box` once, also when the call fails.
    check(unsafe { sys::hws_thread_set_progress(Some(tell::<F>), user, Some(drop_box::<F>)) })
}

/// Removes the progress callback of this thread.
pub fn clear_thread_progress() -> Result<()> {
    ready()?;
    // SAFETY: null means no callback.
    check(unsafe { sys::hws_thread_set_progress(None, ptr::null_mut(), None) })
}

unsafe extern "C" fn drop_box<F>(user: *mut c_void) {
    // SAFETY: the library calls this once, with the box of a callback of this thread.
    drop(unsafe { Box::from_raw(user.cast::<F>()) });
}

/// Resumes the panic of the poll or of the progress callback that ended a call.
pub(crate) fn resume_interrupt_panic(status: sys::hws_status) {
    let panic = INTERRUPT_PANIC.with(|slot| slot.borrow_mut().take());
    if let (Some(panic), sys::HWS_CANCELLED) = (panic, status) {
        resume_unwind(panic);
    }
}
