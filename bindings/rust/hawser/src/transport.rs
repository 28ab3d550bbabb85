//! Transport: implements the functions of `hws_comm_host` by the program's own transport.

use std::any::Any;
use std::ffi::{c_char, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{ptr, slice};

use hawser_sys as sys;

use crate::raw::struct_size;
use crate::{Code, Error, Result};

/// The program's own connection from the one rank of this process to the other ranks.
///
/// Messages between two ranks must arrive in the order and with the sizes in which they were sent; none is
/// empty. One thread at a time sends, receives or exchanges, but not always the same thread. `abort` is
/// called on any thread. An error must have the code for the library: [`Code::Timeout`] after `timeout`,
/// [`Code::Unavailable`] for a lost peer. A panic counts as [`Code::Unavailable`]. No function may call
/// Hawser.
pub trait Transport: Send + Sync + 'static {
    /// True if [`Transport::exchange`] is implemented. Otherwise the lower rank sends first.
    const EXCHANGES: bool = false;

    /// Sends to a rank, and may return before the bytes arrive. Must not wait for the receiver if there are
    /// at most 512 bytes and fewer than two such messages are in transit to it.
    fn send(&self, to_rank: u16, data: &[u8], timeout: Duration) -> Result<()>;

    /// Receives exactly `data.len()` bytes from a rank.
    fn receive(&self, from_rank: u16, data: &mut [u8], timeout: Duration) -> Result<()>;

    /// Sends to and receives from one rank at the same time, for speed.
    fn exchange(&self, rank: u16, sent: &[u8], received: &mut [u8], timeout: Duration) -> Result<()> {
        self.send(rank, sent, timeout)?;
        self.receive(rank, received, timeout)
    }

    /// Notifies the transport that this rank has failed: its running and later calls must return `code` at
    /// once, and its peers' calls soon.
    fn abort(&self, code: Code, message: &str) {
        let _ = (code, message);
    }
}

/// A transport, and the message of its last failed call.
struct Link<T> {
    transport: T,
    message: Mutex<CString>,
}

/// Makes the struct of the C API. Its `user` must be passed to its `destroy` function exactly once.
pub(crate) fn raw<T: Transport>(transport: T, rank: i32, world_size: i32) -> sys::hws_comm_host {
    let link = Box::new(Link { transport, message: Mutex::default() });
    sys::hws_comm_host {
        struct_size: struct_size::<sys::hws_comm_host>(),
        rank,
        world_size,
        reserved: 0,
        user: Box::into_raw(link).cast(),
        send: Some(send::<T>),
        recv: Some(receive::<T>),
        exchange: if T::EXCHANGES { Some(exchange::<T>) } else { None },
        abort: Some(abort::<T>),
        message: Some(message::<T>),
        destroy: Some(destroy::<T>),
    }
}

impl<T> Link<T> {
    /// # Safety
    /// `user` comes from `raw`.
    unsafe fn of<'a>(user: *mut c_void) -> &'a Self {
        // SAFETY: the caller guarantees the type and the lifetime.
        unsafe { &*user.cast() }
    }

    fn run(&self, call: impl FnOnce(&T) -> Result<()>) -> sys::hws_status {
        let error = match catch_unwind(AssertUnwindSafe(|| call(&self.transport))) {
            Ok(Ok(())) => return sys::HWS_OK,
            Ok(Err(error)) => error,
            Err(panic) => {
                Error::new(Code::Unavailable, format!("the transport panicked: {}", panic_text(&*panic)))
            }
        };
        let text = error.message().replace('\0', " ");
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = CString::new(text).unwrap_or_default();
        error.code().status()
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// # Safety
/// `data` has `bytes` bytes for `'a`.
unsafe fn bytes_at<'a>(data: *const c_void, bytes: i64) -> &'a [u8] {
    // SAFETY: the caller guarantees the size and the lifetime.
    unsafe { slice::from_raw_parts(data.cast(), bytes as usize) }
}

unsafe extern "C" fn send<T: Transport>(
    user: *mut c_void,
    to: i32,
    data: *const c_void,
    bytes: i64,
    seconds: f64,
) -> sys::hws_status {
    // SAFETY: the library passes the link and a range of memory.
    let (link, data) = unsafe { (Link::<T>::of(user), bytes_at(data, bytes)) };
    link.run(|transport| transport.send(to as u16, data, duration(seconds)))
}

unsafe extern "C" fn receive<T: Transport>(
    user: *mut c_void,
    from: i32,
    data: *mut c_void,
    bytes: i64,
    seconds: f64,
) -> sys::hws_status {
    // SAFETY: the library passes the link and a range of memory.
    let (link, data) =
        unsafe { (Link::<T>::of(user), slice::from_raw_parts_mut(data.cast::<u8>(), bytes as usize)) };
    link.run(|transport| transport.receive(from as u16, data, duration(seconds)))
}

unsafe extern "C" fn exchange<T: Transport>(
    user: *mut c_void,
    rank: i32,
    sent: *const c_void,
    sent_bytes: i64,
    received: *mut c_void,
    received_bytes: i64,
    seconds: f64,
) -> sys::hws_status {
    // SAFETY: the library passes the link and two ranges of memory that do not overlap.
    let (link, sent, received) = unsafe {
        let received = slice::from_raw_parts_mut(received.cast::<u8>(), received_bytes as usize);
        (Link::<T>::of(user), bytes_at(sent, sent_bytes), received)
    };
    link.run(|transport| transport.exchange(rank as u16, sent, received, duration(seconds)))
}

unsafe extern "C" fn abort<T: Transport>(user: *mut c_void, code: sys::hws_status, message: *const c_char) {
    // SAFETY: the library passes the link and a text or null.
    let (link, text) = unsafe {
        let text = if message.is_null() { c"" } else { CStr::from_ptr(message) };
        (Link::<T>::of(user), text.to_string_lossy())
    };
    // A panic is ignored, because the rank has already failed and there is no caller to report to.
    _ = catch_unwind(AssertUnwindSafe(|| link.transport.abort(Code::from_status(code), &text)));
}

unsafe extern "C" fn message<T>(user: *mut c_void) -> *const c_char {
    // SAFETY: the library passes the link. The text lives until the next call, as the header requires.
    let link = unsafe { Link::<T>::of(user) };
    let text = link.message.lock().unwrap_or_else(PoisonError::into_inner);
    if text.is_empty() {
        return ptr::null();
    }
    text.as_ptr()
}

unsafe extern "C" fn destroy<T>(user: *mut c_void) {
    // SAFETY: the library calls this once, with the pointer from `raw`.
    drop(unsafe { Box::from_raw(user.cast::<Link<T>>()) });
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
