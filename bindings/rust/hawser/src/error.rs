//! What a call failed with.

use std::borrow::Cow;
use std::ffi::CStr;
use std::{error, fmt, io};

use hawser_sys as sys;
use serde_json::Value;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:ident),* $(,)?) => {
        /// What kind of failure it was: the `HWS_*` statuses of the C API.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)*
            /// A status that a newer library has and this crate does not know.
            Unlisted(i32),
        }

        impl Code {
            /// The code of a status of the C API.
            pub fn from_status(status: i32) -> Self {
                match status {
                    $(sys::$status => Self::$name,)*
                    other => Self::Unlisted(other),
                }
            }

            /// The status of the C API.
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
    /// The call was cancelled. Its state is whole.
    Cancelled = HWS_CANCELLED,
    /// A failure of an unknown kind.
    Unknown = HWS_UNKNOWN,
    /// An argument that no state of the object would accept.
    InvalidArgument = HWS_INVALID_ARGUMENT,
    /// What the call waited for did not come in time.
    Timeout = HWS_TIMEOUT,
    /// A file, preset, tensor or checkpoint that is not there.
    NotFound = HWS_NOT_FOUND,
    /// A file or folder that is there already.
    AlreadyExists = HWS_ALREADY_EXISTS,
    /// The process lacks a right.
    Permission = HWS_PERMISSION,
    /// Memory is short; the details have the bytes needed and available.
    OutOfMemory = HWS_OUT_OF_MEMORY,
    /// The object is not in the state that the call needs.
    FailedPrecondition = HWS_FAILED_PRECONDITION,
    /// An earlier failure has ended the object's use.
    Aborted = HWS_ABORTED,
    /// The end of a source's data.
    OutOfRange = HWS_OUT_OF_RANGE,
    /// What this build or this kind of object cannot do.
    Unimplemented = HWS_UNIMPLEMENTED,
    /// A mistake in Hawser.
    Internal = HWS_INTERNAL,
    /// A peer, address or module that cannot be reached.
    Unavailable = HWS_UNAVAILABLE,
    /// Data that was lost or damaged on its way.
    DataLoss = HWS_DATA_LOSS,
    /// Reading or writing a file failed.
    Io = HWS_IO,
    /// A config that is not JSON.
    ConfigParse = HWS_CONFIG_PARSE,
    /// A config whose values cannot be trained with.
    ConfigInvalid = HWS_CONFIG_INVALID,
    /// A device that this machine does not have.
    DeviceUnavailable = HWS_DEVICE_UNAVAILABLE,
    /// A checkpoint whose files are damaged.
    CheckpointCorrupt = HWS_CHECKPOINT_CORRUPT,
    /// A checkpoint of another model or a newer version.
    CheckpointIncompatible = HWS_CHECKPOINT_INCOMPATIBLE,
    /// Numbers that are not finite.
    Numeric = HWS_NUMERIC,
    /// Tokens or files of data that do not fit the model.
    DataInvalid = HWS_DATA_INVALID,
    /// Another call has the object.
    Busy = HWS_BUSY,
    /// An object of the process that forked this one.
    Forked = HWS_FORKED,
    /// An object that is gone; of a `Monitor` whose engine was dropped.
    BadHandle = HWS_BAD_HANDLE,
    /// A library of another version than this crate was built for.
    AbiMismatch = HWS_ABI_MISMATCH,
    /// A callback failed with an error of its own.
    Callback = HWS_CALLBACK,
}

impl Code {
    /// The name in the C API, such as `"HWS_CONFIG_INVALID"`.
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

/// What a call failed with. It displays as one text: what failed, where, on which value, and what to do.
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

    /// An error of your own, such as a [`Transport`](crate::Transport) returns.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::with_details(code, message.into(), Value::Object(Default::default()))
    }

    /// Any error, for a callback to return. Its code is [`Code::Callback`], and [`std::error::Error::source`]
    /// gives the error back.
    pub fn other(error: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = error.into();
        let mut this = Self::new(Code::Callback, source.to_string());
        this.0.source = Some(source);
        this
    }

    /// What kind of failure it is.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What failed, where, on which value, and what to do.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The JSON pointer of the config's field that is at fault, the first if there are several.
    pub fn pointer(&self) -> Option<&str> {
        let details = &self.0.details;
        let place =
            if details.get("pointer").is_some() { details } else { details.get("problems")?.get(0)? };
        place.get("pointer")?.as_str()
    }

    /// A JSON object for programs: "pointer", "problems", "file", "offset", "tensor", "argument" and others,
    /// as the error has them.
    pub fn details(&self) -> &Value {
        &self.0.details
    }

    /// The error that was given to [`Error::other`], if it was a `T`; else this error again.
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

/// As [`Error::other`], so that `?` works on files in a callback.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::other(error)
    }
}
