//! Contract: the module's side of `../../text_module.h`. It defines the same structs and converts results,
//! errors and panics into statuses.

use std::ffi::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::rows::Rows;
use crate::stream::Stream;
use crate::template::Template;
use tokenizers::Tokenizer;

pub const OK: i32 = 0;
pub const INVALID: i32 = 1;
pub const STOPPED: i32 = 2;
pub const GAVE_UP: i32 = 3;

#[repr(C)]
pub struct Sink {
    user: *mut c_void,
    write: extern "C" fn(*mut c_void, *const c_void, usize) -> i32,
}

#[repr(C)]
pub struct Source {
    user: *mut c_void,
    next: extern "C" fn(*mut c_void, *mut *const c_char, *mut usize) -> i32,
}

/// A callback that returns true to end a call. `stop` is null if the caller never ends a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Poll {
    user: *mut c_void,
    stop: Option<extern "C" fn(*mut c_void) -> i32>,
}

impl Poll {
    pub fn says_stop(&self) -> bool {
        self.stop.is_some_and(|stop| stop(self.user) != 0)
    }

    /// Fails if the caller ends the call.
    pub fn check(&self) -> Outcome<()> {
        if self.says_stop() {
            return Err(Failure::Stopped);
        }
        Ok(())
    }
}

#[repr(C)]
pub struct Module {
    pub build_id: *const c_char,
    pub tokenizer_open: unsafe extern "C" fn(*const c_char, usize, *mut *mut Tokenizer, *const Sink) -> i32,
    pub tokenizer_close: unsafe extern "C" fn(*mut Tokenizer),
    pub vocabulary_size: unsafe extern "C" fn(*const Tokenizer) -> u32,
    pub token_of: unsafe extern "C" fn(*const Tokenizer, u32, *const Sink, *mut i32, *const Sink) -> i32,
    pub id_of: unsafe extern "C" fn(*const Tokenizer, *const c_char, usize, *mut i64),
    pub encode: unsafe extern "C" fn(
        *const Tokenizer,
        *const c_char,
        usize,
        *const c_char,
        usize,
        i32,
        *const Poll,
        *const Sink,
        *const Sink,
        *const Sink,
    ) -> i32,
    pub decode:
        unsafe extern "C" fn(*const Tokenizer, *const u32, usize, i32, *const Sink, *const Sink) -> i32,
    pub stream_open: unsafe extern "C" fn(i32, *mut *mut Stream) -> i32,
    pub stream_close: unsafe extern "C" fn(*mut Stream),
    pub stream_next:
        unsafe extern "C" fn(*const Tokenizer, *mut Stream, u32, *const Sink, *const Sink) -> i32,
    pub train_bpe: unsafe extern "C" fn(
        *const Source,
        u32,
        *const c_char,
        usize,
        *const Poll,
        *const Sink,
        *const Sink,
    ) -> i32,
    pub template_open:
        unsafe extern "C" fn(*const c_char, usize, *mut *mut Template, *mut i32, *const Sink) -> i32,
    pub template_close: unsafe extern "C" fn(*mut Template),
    pub template_render: unsafe extern "C" fn(
        *const Template,
        *const c_char,
        usize,
        i64,
        *const Poll,
        *const Sink,
        *const Sink,
        *const Sink,
    ) -> i32,
    pub rows_open: unsafe extern "C" fn(*const c_char, usize, *mut *mut Rows, *mut i64, *const Sink) -> i32,
    pub rows_close: unsafe extern "C" fn(*mut Rows),
    pub rows_next: unsafe extern "C" fn(*mut Rows, *mut i32, *const Sink, *const Sink) -> i32,
}

// The struct holds functions and one pointer to a constant.
unsafe impl Sync for Module {}

/// The reason for which a call ends early.
pub enum Failure {
    Invalid(String),
    Stopped,
}

impl Failure {
    pub fn invalid(reason: impl std::fmt::Display) -> Self {
        Failure::Invalid(reason.to_string())
    }
}

pub type Outcome<T> = Result<T, Failure>;

impl Sink {
    pub fn write<T: Copy>(&self, values: &[T]) -> Outcome<()> {
        match (self.write)(self.user, values.as_ptr().cast(), std::mem::size_of_val(values)) {
            0 => Ok(()),
            _ => Err(Failure::Stopped),
        }
    }
}

impl Source {
    /// Returns the next text; `None` at the end.
    pub fn next(&self) -> Outcome<Option<&str>> {
        let (mut text, mut bytes) = (std::ptr::null(), 0);
        match (self.next)(self.user, &mut text, &mut bytes) {
            0 => Ok(None),
            1 => unsafe { str_of(text, bytes) }.map(Some),
            _ => Err(Failure::Stopped),
        }
    }
}

/// Returns the caller's text.
///
/// # Safety
/// `text` points at `bytes` bytes that outlive the result, or `bytes` is 0.
pub unsafe fn str_of<'a>(text: *const c_char, bytes: usize) -> Outcome<&'a str> {
    if bytes == 0 {
        return Ok("");
    }
    let bytes = std::slice::from_raw_parts(text.cast::<u8>(), bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Failure::invalid(format_args!("the text is not UTF-8 at byte {at} (0x{:02x})", bytes[at]))
    })
}

/// Runs a call and writes its error to `error`.
pub fn guarded(error: &Sink, call: impl FnOnce() -> Outcome<()>) -> i32 {
    let (status, message) = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return OK,
        Ok(Err(Failure::Invalid(reason))) => (INVALID, reason),
        Ok(Err(Failure::Stopped)) => return STOPPED,
        Err(panic) => (GAVE_UP, words_of(panic.as_ref())),
    };
    // If the sink refuses the message, the status still reports the failure.
    let _ = error.write(message.as_bytes());
    status
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    words.unwrap_or("a panic without a message").to_owned()
}
