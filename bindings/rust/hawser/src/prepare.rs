//! Prepares text for training: tokenizes it and marks the tokens to train on.

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::{ptr, slice};

use hawser_sys as sys;
use serde_json::Value;

use crate::callback::Borrowed;
use crate::error::Error;
use crate::library::ready;
use crate::raw::{c_path, c_string, json};
use crate::Result;

/// Prepares text for training: converts files of examples to a folder of tokens, for data of the format
/// "prepared". The keys of `request` are those of `hws_data_prepare` in `hawser.h`: "model", "files", "out",
/// "sequence" and others. `progress` is called from time to time with "done_bytes", "total_bytes" and "rows";
/// its panic resumes in this call. Returns the report.
pub fn prepare<F: FnMut(&Value)>(request: &Value, progress: F) -> Result<Value> {
    ready()?;
    let request = c_string("request", request.to_string())?;
    let mut listener: Borrowed<F, Error> = Borrowed::new(progress);
    // SAFETY: the request ends with a NUL, and the listener outlives the call, which is its only user.
    let report = json(|out| unsafe {
        sys::hws_data_prepare(
            request.as_ptr(),
            Some(told::<F>),
            ptr::addr_of_mut!(listener).cast(),
            None,
            out,
        )
    });
    listener.finish()?;
    report
}

/// Returns row `row` of a prepared folder as the model sees it: its documents, their texts, and the bytes of
/// each text that are trained on.
pub fn preview(folder: impl AsRef<Path>, row: i64) -> Result<Value> {
    ready()?;
    let folder = c_path("folder", folder.as_ref())?;
    // SAFETY: the path ends with a NUL.
    json(|out| unsafe { sys::hws_data_preview(folder.as_ptr(), row, out) })
}

unsafe extern "C" fn told<F: FnMut(&Value)>(user: *mut c_void, json: *const c_char, size: usize) {
    // SAFETY: `user` comes from prepare(); the text is valid during this call.
    let (listener, json) =
        unsafe { (&mut *user.cast::<Borrowed<F, Error>>(), slice::from_raw_parts(json.cast(), size)) };
    listener.hold(|callback| {
        callback(&serde_json::from_slice(json).map_err(Error::other)?);
        Ok(())
    });
}
