//! Checkpoints and Hugging Face folders.

use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Duration;

use hawser_sys as sys;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::raw::{c_path, c_string, check, json, text, Handle};
use crate::{library, Code, Engine, Error, Result};

/// The element type of an exported model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum ExportType {
    /// The type of the import; f32 for a model that was not imported.
    #[default]
    AsImported,
    /// float32
    F32,
    /// bfloat16
    Bf16,
    /// float16
    F16,
    /// 8 bits a number with a scale for 32 of them, in GGUF files only
    Q8_0,
}

impl ExportType {
    fn raw(self) -> &'static std::ffi::CStr {
        match self {
            Self::AsImported => c"",
            Self::F32 => c"f32",
            Self::Bf16 => c"bf16",
            Self::F16 => c"f16",
            Self::Q8_0 => c"q8_0",
        }
    }
}

/// The checkpoint that [`Engine::load_latest`] loaded.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Loaded {
    /// The folder's name, such as "step-20".
    pub name: String,
    /// The checkpoint's step.
    pub step: u64,
    /// Newer checkpoints that were skipped because they are damaged.
    #[serde(default)]
    pub damaged: Vec<Damaged>,
}

/// A checkpoint that cannot be used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Damaged {
    /// The folder's name.
    pub name: String,
    /// The reason why it cannot be used.
    pub problem: String,
}

/// Allows or forbids loading a checkpoint that was trained on other data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LoadData {
    /// The checkpoint's data must be the config's data.
    #[default]
    Same,
    /// The checkpoint may have been trained on other data.
    Other,
}

impl LoadData {
    fn raw(self) -> u32 {
        match self {
            Self::Same => 0,
            Self::Other => sys::HWS_LOAD_OTHER_DATA as u32,
        }
    }
}

impl Engine {
    /// Writes a checkpoint, a directory that must not exist yet. Afterwards it is complete and durable, or
    /// does not exist.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = c_path("path", path.as_ref())?;
        check(unsafe { sys::hws_checkpoint_save(self.raw_mut(), path.as_ptr()) })
    }

    /// Writes a checkpoint while training continues; returns as soon as the state is copied.
    pub fn save_async(&mut self, path: impl AsRef<Path>) -> Result<Operation> {
        let path = c_path("path", path.as_ref())?;
        let raw = self.raw_mut();
        Handle::make(sys::hws_op_destroy, |out| unsafe {
            sys::hws_checkpoint_save_async(raw, path.as_ptr(), out)
        })
        .map(Operation)
    }

    /// Restores weights, optimizer, counters and data cursor, so that training resumes bit for bit. The
    /// checkpoint is checked completely before the engine changes.
    pub fn load(&mut self, path: impl AsRef<Path>, data: LoadData) -> Result<()> {
        let path = c_path("path", path.as_ref())?;
        check(unsafe { sys::hws_checkpoint_load(self.raw_mut(), path.as_ptr(), data.raw()) })
    }

    /// Loads the newest valid checkpoint below `folder` (step-*, best). Errors: [`NotFound`](Code::NotFound)
    /// if there is none; the engine is then unchanged.
    pub fn load_latest(&mut self, folder: impl AsRef<Path>, data: LoadData) -> Result<Loaded> {
        let folder = c_path("folder", folder.as_ref())?;
        let raw = self.raw_mut();
        json(|out| unsafe { sys::hws_checkpoint_load_latest(raw, folder.as_ptr(), data.raw(), out) })
    }

    /// Makes a Hugging Face folder from the engine's weights, or a file for llama.cpp if `to` ends in ".gguf".
    pub fn export(&self, to: impl AsRef<Path>, dtype: ExportType) -> Result<()> {
        let folder = c_path("to", to.as_ref())?;
        check(unsafe { sys::hws_engine_export(self.raw(), folder.as_ptr(), dtype.raw().as_ptr()) })
    }

    /// Makes a PEFT folder from the engine's adapter, or a file for llama.cpp if `to` ends in ".gguf".
    /// [`Engine::export`] merges the adapter into the weights instead.
    pub fn export_adapter(&self, to: impl AsRef<Path>) -> Result<()> {
        let folder = c_path("to", to.as_ref())?;
        check(unsafe { sys::hws_engine_export_adapter(self.raw(), folder.as_ptr()) })
    }
}

/// A save that runs during training. Dropping this object does not end the save. Dropping the engine waits
/// for the save.
#[must_use = "a save can fail later: wait for it"]
pub struct Operation(Handle<sys::hws_op>);

/// The progress of an [`Operation`], in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct OperationProgress {
    /// Bytes written so far.
    pub done: u64,
    /// Total bytes.
    pub total: u64,
}

impl Operation {
    /// Waits for the end of the save, and returns its error if it failed.
    pub fn wait(&self) -> Result<()> {
        check(unsafe { sys::hws_op_wait(self.0.get(), -1.0) })
    }

    /// Waits at most `timeout`; returns false if the save is still running.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        match check(unsafe { sys::hws_op_wait(self.0.get(), timeout.as_secs_f64()) }) {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Code::Timeout && !self.is_ended()? => Ok(false),
            // It may have ended just after the timeout: its own result counts.
            Err(error) if error.code() == Code::Timeout => self.wait().map(|()| true),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the save has ended, successfully or not.
    pub fn is_ended(&self) -> Result<bool> {
        let mut ended = 0;
        check(unsafe { sys::hws_op_poll(self.0.get(), &mut ended) })?;
        Ok(ended != 0)
    }

    /// Returns the bytes of tensors written. After the last byte the operation still makes the files durable.
    pub fn progress(&self) -> Result<OperationProgress> {
        let (mut done, mut total) = (0, 0);
        check(unsafe { sys::hws_op_progress(self.0.get(), &mut done, &mut total) })?;
        Ok(OperationProgress { done: done as u64, total: total as u64 })
    }

    /// Requests the end of the save, without waiting. The save leaves no files behind and ends with
    /// [`Code::Cancelled`], unless it was about to finish.
    pub fn cancel(&self) -> Result<()> {
        check(unsafe { sys::hws_op_cancel(self.0.get()) })
    }
}

/// Returns model, step, tensors and files of a checkpoint.
pub fn inspect_checkpoint(path: impl AsRef<Path>) -> Result<Value> {
    let path = c_path("path", path.as_ref())?;
    json(|out| unsafe { sys::hws_checkpoint_inspect(path.as_ptr(), out) })
}

/// Checks every digest. Errors: [`Code::CheckpointCorrupt`] names file, tensor and byte range.
pub fn verify_checkpoint(path: impl AsRef<Path>) -> Result<()> {
    library::ready()?;
    let path = c_path("path", path.as_ref())?;
    check(unsafe { sys::hws_checkpoint_verify(path.as_ptr()) })
}

/// Returns the newest valid checkpoint below `folder` (step-*, best). [`Engine::load_latest`] finds it by
/// itself.
pub fn latest_checkpoint(folder: impl AsRef<Path>) -> Result<PathBuf> {
    let folder = c_path("folder", folder.as_ref())?;
    text(|out| unsafe { sys::hws_checkpoint_latest(folder.as_ptr(), out) }).map(PathBuf::from)
}

/// Makes a checkpoint of step 0 from a Hugging Face folder. `ignore_keys`: unknown keys of config.json to
/// accept.
pub fn import_checkpoint(
    hf_folder: impl AsRef<Path>,
    path: impl AsRef<Path>,
    ignore_keys: &[&str],
) -> Result<()> {
    library::ready()?;
    let folder = c_path("hf_folder", hf_folder.as_ref())?;
    let path = c_path("path", path.as_ref())?;
    let keys = c_string("ignore_keys", Value::from(ignore_keys).to_string())?;
    let keys = if ignore_keys.is_empty() { ptr::null() } else { keys.as_ptr() };
    check(unsafe { sys::hws_checkpoint_import(folder.as_ptr(), path.as_ptr(), keys) })
}

/// Makes a checkpoint with the weighted mean of the weights of several checkpoints of one model, computed in
/// f64 and rounded once to f32. The new checkpoint has no optimizer state. `weights`: the share of each,
/// relative to the others; empty for equal shares.
pub fn average_checkpoints(paths: &[impl AsRef<Path>], weights: &[f64], to: impl AsRef<Path>) -> Result<()> {
    library::ready()?;
    let mut names = Vec::new();
    for path in paths {
        let Some(name) = path.as_ref().to_str() else {
            return Err(Error::new(Code::InvalidArgument, "paths must be UTF-8".to_owned()));
        };
        names.push(name);
    }
    let names = c_string("paths", Value::from(names).to_string())?;
    let shares = c_string("weights", Value::from(weights).to_string())?;
    let shares = if weights.is_empty() { ptr::null() } else { shares.as_ptr() };
    let to = c_path("to", to.as_ref())?;
    check(unsafe { sys::hws_checkpoint_average(names.as_ptr(), shares, to.as_ptr()) })
}

/// Makes a Hugging Face folder from a checkpoint or another such folder, or a file for llama.cpp if `to` ends
/// in ".gguf".
pub fn export_checkpoint(path: impl AsRef<Path>, to: impl AsRef<Path>, dtype: ExportType) -> Result<()> {
    library::ready()?;
    let path = c_path("path", path.as_ref())?;
    let folder = c_path("to", to.as_ref())?;
    check(unsafe { sys::hws_checkpoint_export(path.as_ptr(), folder.as_ptr(), dtype.raw().as_ptr()) })
}

/// Makes a PEFT folder from the adapter in a checkpoint, or a file for llama.cpp if `to` ends in ".gguf".
pub fn export_checkpoint_adapter(path: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    library::ready()?;
    let path = c_path("path", path.as_ref())?;
    let folder = c_path("to", to.as_ref())?;
    check(unsafe { sys::hws_checkpoint_export_adapter(path.as_ptr(), folder.as_ptr()) })
}
