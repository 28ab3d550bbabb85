//! Errors: the failures of calls.

use std::borrow::Cow;
use std::ffi::CStr;
use std::{error, fmt, io};

use hawser_sys as sys;
use serde_json::Value;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:ident),* $(,)?) => {
        /// The kind of a failure: the `HWS_*` statuses of the C API.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)*
            /// A status that only a newer library has.
            Unlisted(i32),
        }

        impl Code {
            /// Returns the code for a status of the C API.
            pub fn from_status(status: i32) -> Self {
                match status {
                    $(sys::$status => Self::$name,)*
                    other => Self::Unlisted(other),
                }
            }

            /// Returns the status of the C API.
            pub fn status(self) -> i32 {
                match self {
                    $(Self::$name => sys::$status,)*
                    Self::Unlisted(other) => other,
                }
            }
        }
    };
}

codes! {
    /// The call was cancelled. Its object is still usable.
    Cancelled = HWS_CANCELLED,
    /// The kind of the failure is unknown.
    Unknown = HWS_UNKNOWN,
    /// No state of the object would accept the argument.
    InvalidArgument = HWS_INVALID_ARGUMENT,
    /// The time limit passed before the awaited event.
    Timeout = HWS_TIMEOUT,
    /// A file, preset, tensor or checkpoint does not exist.
    NotFound = HWS_NOT_FOUND,
    /// The file or folder to be written already exists.
    AlreadyExists = HWS_ALREADY_EXISTS,
    /// The process lacks a permission.
    Permission = HWS_PERMISSION,
    /// There is not enough memory; the details have the bytes needed and available.
    OutOfMemory = HWS_OUT_OF_MEMORY,
    /// The object is not in the state that the call needs.
    FailedPrecondition = HWS_FAILED_PRECONDITION,
    /// An earlier failure made the object unusable.
    Aborted = HWS_ABORTED,
    /// The source has no more data.
    OutOfRange = HWS_OUT_OF_RANGE,
    /// This build or this kind of object does not support the call.
    Unimplemented = HWS_UNIMPLEMENTED,
    /// Hawser has a bug.
    Internal = HWS_INTERNAL,
    /// A peer, address or module cannot be reached.
    Unavailable = HWS_UNAVAILABLE,
    /// Data was lost or damaged in transit.
    DataLoss = HWS_DATA_LOSS,
    /// Reading or writing a file failed.
    Io = HWS_IO,
    /// A config is not JSON.
    ConfigParse = HWS_CONFIG_PARSE,
    /// A config has values that cannot be trained with.
    ConfigInvalid = HWS_CONFIG_INVALID,
    /// This machine does not have the device.
    DeviceUnavailable = HWS_DEVICE_UNAVAILABLE,
    /// The files of a checkpoint are damaged.
    CheckpointCorrupt = HWS_CHECKPOINT_CORRUPT,
    /// A checkpoint belongs to another model, other data or a newer version.
    CheckpointIncompatible = HWS_CHECKPOINT_INCOMPATIBLE,
    /// Numbers are not finite.
    Numeric = HWS_NUMERIC,
    /// Tokens or files of data do not fit the model.
    DataInvalid = HWS_DATA_INVALID,
    /// Another call is using the object.
    Busy = HWS_BUSY,
    /// The object belongs to the process that forked this one.
    Forked = HWS_FORKED,
    /// The object no longer exists, such as the dropped engine of a `Monitor`.
    BadHandle = HWS_BAD_HANDLE,
    /// The library's ABI differs from the one that this crate was built for.
    AbiMismatch = HWS_ABI_MISMATCH,
    /// A callback failed with an error of its own.
    Callback = HWS_CALLBACK,
}

impl Code {
    /// Returns the name in the C API, such as `"HWS_CONFIG_INVALID"`.
    pub fn name(self) -> &'static str {
        // SAFETY: the library returns a static text for any number.
        unsafe { CStr::from_ptr(sys::hws_status_name(self.status())) }.to_str().unwrap_or("HWS_UNKNOWN")
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The failure of a call. It displays as one text: what failed, where, on which value, and what to do.
pub struct Error(Box<Inner>);

struct Inner {
    code: Code,
    message: String,
    details: Value,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn with_details(code: Code, message: String, details: Value) -> Self {
        Self(Box::new(Inner { code, message, details, source: None }))
    }

    /// Makes an error, for example for a [`Transport`](crate::Transport) to return.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::with_details(code, message.into(), Value::Object(Default::default()))
    }

    /// Wraps any error, for a callback to return. Its code is [`Code::Callback`], and
    /// [`std::error::Error::source`] returns the wrapped error.
    pub fn other(error: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = error.into();
        let mut this = Self::new(Code::Callback, source.to_string());
        this.0.source = Some(source);
        this
    }

    /// Returns the kind of the failure.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Returns a text that states what failed, where, on which value, and what to do.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the JSON pointer of the first config field that is wrong.
    pub fn pointer(&self) -> Option<&str> {
        let details = &self.0.details;
        let place =
            if details.get("pointer").is_some() { details } else { details.get("problems")?.get(0)? };
        place.get("pointer")?.as_str()
    }

    /// Returns a JSON object for programs, with those of "pointer", "problems", "file", "offset", "tensor",
    /// "argument" and others that apply.
    pub fn details(&self) -> &Value {
        &self.0.details
    }

    /// Returns the error that was given to [`Error::other`], if it is a `T`; otherwise returns this error
    /// again.
    pub fn downcast<T: error::Error + 'static>(mut self) -> Result<Box<T>, Self> {
        match self.0.source.take().map(|source| source.downcast::<T>()) {
            Some(Ok(found)) => Ok(found),
            Some(Err(source)) => {
                self.0.source = Some(source);
                Err(self)
            }
            None => Err(self),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("details", &Cow::from(self.0.details.to_string()))
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Converts like [`Error::other`], so that `?` works on files in a callback.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::other(error)
    }
}
