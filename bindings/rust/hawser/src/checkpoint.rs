//! Checkpoints and Hugging Face folders.

use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Duration;

use hawser_sys as sys;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::raw::{c_path, c_string, check, json, text, Handle};
use crate::{library, Code, Engine, Result};

/// The element type of a Hugging Face folder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum ExportType {
    /// As imported, else f32.
    #[default]
    AsImported,
    /// float32
    F32,
    /// bfloat16
    Bf16,
    /// float16
    F16,
}

impl ExportType {
    fn raw(self) -> &'static std::ffi::CStr {
        match self {
            Self::AsImported => c"",
            Self::F32 => c"f32",
            Self::Bf16 => c"bf16",
            Self::F16 => c"f16",
        }
    }
}

/// What [`Engine::load_latest`] has loaded.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Loaded {
    /// The folder's name, "step-20".
    pub name: String,
    /// Its step.
    pub step: u64,
    /// Those that were passed over.
    #[serde(default)]
    pub damaged: Vec<Damaged>,
}

/// A checkpoint that cannot be used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Damaged {
    /// The folder's name.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Whether a checkpoint of other data may be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LoadData {
    /// The checkpoint's data must be that of the config.
    #[default]
    Same,
    /// It may be other data.
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
    /// Writes a checkpoint, a directory that must not exist yet. Afterwards it is whole and durable, or not
    /// there.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = c_path("path", path.as_ref())?;
        check(unsafe { sys::hws_checkpoint_save(self.raw_mut(), path.as_ptr()) })
    }

    /// The same while training goes on: returns as soon as the state is copied.
    pub fn save_async(&mut self, path: impl AsRef<Path>) -> Result<Operation> {
        let path = c_path("path", path.as_ref())?;
        let raw = self.raw_mut();
        Handle::make(sys::hws_op_destroy, |out| unsafe {
            sys::hws_checkpoint_save_async(raw, path.as_ptr(), out)
        })
        .map(Operation)
    }

    /// Restores weights, optimizer, counters and data cursor; training goes on bit for bit. Everything is
    /// checked before anything changes.
    pub fn load(&mut self, path: impl AsRef<Path>, data: LoadData) -> Result<()> {
        let path = c_path("path", path.as_ref())?;
        check(unsafe { sys::hws_checkpoint_load(self.raw_mut(), path.as_ptr(), data.raw()) })
    }

    /// Loads the newest whole checkpoint below `folder` (step-*, best). Errors: [`NotFound`](Code::NotFound) if
    /// there is none; the engine is then as before.
    pub fn load_latest(&mut self, folder: impl AsRef<Path>, data: LoadData) -> Result<Loaded> {
        let folder = c_path("folder", folder.as_ref())?;
        let raw = self.raw_mut();
        json(|out| unsafe { sys::hws_checkpoint_load_latest(raw, folder.as_ptr(), data.raw(), out) })
    }

    /// Makes a Hugging Face folder from the engine's weights.
    pub fn export(&self, hf_folder: impl AsRef<Path>, dtype: ExportType) -> Result<()> {
        let folder = c_path("hf_folder", hf_folder.as_ref())?;
        check(unsafe { sys::hws_engine_export(self.raw(), folder.as_ptr(), dtype.raw().as_ptr()) })
    }

    /// Makes a PEFT folder from the engine's adapter. [`Engine::export`] merges it instead.
    pub fn export_adapter(&self, peft_folder: impl AsRef<Path>) -> Result<()> {
        let folder = c_path("peft_folder", peft_folder.as_ref())?;
        check(unsafe { sys::hws_engine_export_adapter(self.raw(), folder.as_ptr()) })
    }
}

/// A save that runs beside training. Dropping it does not end the save; it goes on after the engine's last call
/// and before its end.
#[must_use = "a save can fail later: wait for it"]
pub struct Operation(Handle<sys::hws_op>);

/// Bytes of an [`Operation`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct OperationProgress {
    /// Written so far.
    pub done: u64,
    /// In all.
    pub total: u64,
}

impl Operation {
    /// Waits for its end, and returns what it failed with.
    pub fn wait(&self) -> Result<()> {
        check(unsafe { sys::hws_op_wait(self.0.get(), -1.0) })
    }

    /// Waits at most `timeout`; false: it still runs.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        match check(unsafe { sys::hws_op_wait(self.0.get(), timeout.as_secs_f64()) }) {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Code::Timeout && !self.is_ended()? => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether it has ended, well or not.
    pub fn is_ended(&self) -> Result<bool> {
        let mut ended = 0;
        check(unsafe { sys::hws_op_poll(self.0.get(), &mut ended) })?;
        Ok(ended != 0)
    }

    /// Bytes of tensors. After the last one the operation still makes the files durable.
    pub fn progress(&self) -> Result<OperationProgress> {
        let (mut done, mut total) = (0, 0);
        check(unsafe { sys::hws_op_progress(self.0.get(), &mut done, &mut total) })?;
        Ok(OperationProgress { done: done as u64, total: total as u64 })
    }

    /// Asks it to stop, and does not wait. It leaves no files behind and ends with [`Code::Cancelled`], unless
    /// it was just ending.
    pub fn cancel(&self) -> Result<()> {
        check(unsafe { sys::hws_op_cancel(self.0.get()) })
    }
}

/// Model, step, tensors and files of a checkpoint.
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

/// The newest whole checkpoint below `folder` (step-*, best). [`Engine::load_latest`] finds it by itself.
pub fn latest_checkpoint(folder: impl AsRef<Path>) -> Result<PathBuf> {
    let folder = c_path("folder", folder.as_ref())?;
    text(|out| unsafe { sys::hws_checkpoint_latest(folder.as_ptr(), out) }).map(PathBuf::from)
}

/// Makes a checkpoint (of step 0) from a Hugging Face folder. `ignore_keys`: unknown keys of config.json to
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

/// Makes a Hugging Face folder from a checkpoint.
pub fn export_checkpoint(
    path: impl AsRef<Path>,
    hf_folder: impl AsRef<Path>,
    dtype: ExportType,
) -> Result<()> {
    library::ready()?;
    let path = c_path("path", path.as_ref())?;
    let folder = c_path("hf_folder", hf_folder.as_ref())?;
    check(unsafe { sys::hws_checkpoint_export(path.as_ptr(), folder.as_ptr(), dtype.raw().as_ptr()) })
}

/// Makes a PEFT folder from the adapter in a checkpoint.
pub fn export_checkpoint_adapter(path: impl AsRef<Path>, peft_folder: impl AsRef<Path>) -> Result<()> {
    library::ready()?;
    let path = c_path("path", path.as_ref())?;
    let folder = c_path("peft_folder", peft_folder.as_ref())?;
    check(unsafe { sys::hws_checkpoint_export_adapter(path.as_ptr(), folder.as_ptr()) })
}
