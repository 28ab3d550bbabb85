//! Helpers for calling C, which every module uses: owned handles, statuses, buffers, texts.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

use hawser_sys as sys;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{library, Code, Error, Result};

/// A handle that is destroyed once.
pub(crate) struct Handle<T> {
    raw: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

// SAFETY: a handle is a number that the library checks, on any thread. Functions with a const handle take
// `&self` and may run concurrently; all others take `&mut self`.
unsafe impl<T> Send for Handle<T> {}
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    /// Owns the handle that `create` writes to its argument.
    pub(crate) fn make(
        destroy: unsafe extern "C" fn(*mut T),
        create: impl FnOnce(*mut *mut T) -> sys::hws_status,
    ) -> Result<Self> {
        library::ready()?;
        let mut raw = ptr::null_mut();
        check(create(&mut raw))?;
        Ok(Self { raw, destroy })
    }

    pub(crate) fn get(&self) -> *mut T {
        self.raw
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: this object owns the handle.
        unsafe { (self.destroy)(self.raw) }
    }
}

/// Returns Err with the library's error for a status other than HWS_OK.
pub(crate) fn check(status: sys::hws_status) -> Result<()> {
    if status == sys::HWS_OK {
        return Ok(());
    }
    library::resume_interrupt_panic(status);
    Err(taken(status)
        .unwrap_or_else(|| Error::new(Code::from_status(status), Code::from_status(status).name())))
}

/// Returns the last error of this thread if it has this status; otherwise it is an older error, and the
/// result is None.
fn taken(status: sys::hws_status) -> Option<Error> {
    let mut raw = ptr::null_mut();
    // SAFETY: `raw` is written; the texts live until the handle is dropped.
    unsafe {
        if sys::hws_error_take(&mut raw) != sys::HWS_OK {
            return None;
        }
        let error = Handle { raw, destroy: sys::hws_error_destroy };
        if sys::hws_error_code(error.get()) != status {
            return None;
        }
        let message = CStr::from_ptr(sys::hws_error_message(error.get())).to_string_lossy().into_owned();
        let details = CStr::from_ptr(sys::hws_error_details(error.get()));
        let details = serde_json::from_slice(details.to_bytes()).unwrap_or(Value::Null);
        Some(Error::with_details(Code::from_status(status), message, details))
    }
}

/// A buffer that the library allocated.
pub(crate) struct Buffer(Handle<sys::hws_buffer>);

impl Buffer {
    pub(crate) fn of(call: impl FnOnce(*mut *mut sys::hws_buffer) -> sys::hws_status) -> Result<Self> {
        Handle::make(sys::hws_buffer_destroy, call).map(Self)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the data lives as long as the buffer, which `self` owns.
        unsafe {
            match sys::hws_buffer_size(self.0.get()) {
                0 => &[],
                size => slice::from_raw_parts(sys::hws_buffer_data(self.0.get()).cast(), size),
            }
        }
    }
}

pub(crate) fn text(call: impl FnOnce(*mut *mut sys::hws_buffer) -> sys::hws_status) -> Result<String> {
    Ok(String::from_utf8_lossy(Buffer::of(call)?.bytes()).into_owned())
}

/// Returns tokens that the library wrote.
pub(crate) fn tokens(call: impl FnOnce(*mut *mut sys::hws_buffer) -> sys::hws_status) -> Result<Vec<i32>> {
    let number = |bytes: &[u8]| i32::from_ne_bytes(bytes.try_into().expect("chunks of four"));
    Ok(Buffer::of(call)?.bytes().chunks_exact(4).map(number).collect())
}

/// Returns a report that the library wrote as JSON.
pub(crate) fn json<T: DeserializeOwned>(
    call: impl FnOnce(*mut *mut sys::hws_buffer) -> sys::hws_status,
) -> Result<T> {
    let buffer = Buffer::of(call)?;
    serde_json::from_slice(buffer.bytes())
        .map_err(|error| Error::new(Code::Internal, format!("a report of the library: {error}")))
}

/// Converts a text for a parameter that ends with a NUL.
pub(crate) fn c_string(name: &str, text: impl AsRef<[u8]>) -> Result<CString> {
    CString::new(text.as_ref()).map_err(|error| {
        Error::new(
            Code::InvalidArgument,
            format!(
                "{name} has a NUL byte at {}, where the library would cut it off: leave it out",
                error.nul_position()
            ),
        )
    })
}

pub(crate) fn c_path(name: &str, path: &Path) -> Result<CString> {
    c_string(name, path.as_os_str().as_bytes())
}

/// Converts `value` for a parameter of type int64_t.
pub(crate) fn signed(name: &str, value: u64) -> Result<i64> {
    i64::try_from(value)
        .map_err(|_| Error::new(Code::InvalidArgument, format!("{name} is {value}, more than {}", i64::MAX)))
}

/// Returns the size of a struct, for its `struct_size`.
pub(crate) const fn struct_size<T>() -> u32 {
    std::mem::size_of::<T>() as u32
}
