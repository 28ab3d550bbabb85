//! Ranks, and their connections to each other.

use std::ffi::{c_char, c_void, CString};
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, ptr, slice};

use hawser_sys as sys;
use serde_json::Value;

use crate::raw::{c_path, c_string, json, struct_size, Handle};
use crate::transport::{self, Transport};
use crate::Result;

/// The ranks of this process, and their connections to all other ranks: as threads of this process, over TCP,
/// or over your own transport. A comm serves one engine at a time.
#[must_use]
pub struct Comm(Handle<sys::hws_comm>);

/// The settings with which a process joins a job. A field that is None or empty has its default.
///
/// ```no_run
/// # fn main() -> hawser::Result<()> {
/// let comm = hawser::Comm::join(&hawser::Address {
///     rank: 0,
///     world_size: 2,
///     address: "10.0.0.1:29500".into(),
///     secret: Some(hawser::Secret::File("/run/job/secret".into())),
///     ..Default::default()
/// })?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Address {
    /// The rank of this process, from 0.
    pub rank: u16,
    /// The total number of ranks.
    pub world_size: u16,
    /// The "host:port" on which rank 0 listens and to which all other ranks connect.
    pub address: String,
    /// The address on which this rank listens. Default: the address from which it reaches rank 0.
    pub host: String,
    /// The listening address by the name of a network interface, such as "eth0".
    pub network_interface: String,
    /// The time for all ranks to arrive and connect. Default: 60 s.
    pub timeout: Option<Duration>,
    /// The time without a heartbeat after which a process counts as lost. Default: 10 s.
    pub silence: Option<Duration>,
    /// A text that must be equal on all ranks, such as the name of the job; at most 127 bytes.
    pub job: String,
    /// The secret that every rank of the job knows.
    pub secret: Option<Secret>,
    /// Allows an address beyond the loopback without a secret.
    pub trust_network: bool,
    /// Uses TCP instead of shared memory for processes on the same machine.
    pub without_shared_memory: bool,
}

/// The secret of a job, 32 to 4,096 bytes.
#[derive(Clone)]
#[non_exhaustive]
pub enum Secret {
    /// The secret is in a file, which must not be readable by every user.
    File(PathBuf),
    /// The secret is in memory.
    Bytes(Vec<u8>),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Bytes(_) => f.write_str("Bytes(..)"),
        }
    }
}

impl Comm {
    fn make(create: impl FnOnce(*mut *mut sys::hws_comm) -> sys::hws_status) -> Result<Self> {
        Handle::make(sys::hws_comm_destroy, create).map(Self)
    }

    /// Makes `ranks` ranks (1 to 4,096) that are threads of this process.
    pub fn local(ranks: u16) -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_comm_create_local(ranks.into(), out) })
    }

    /// Makes one rank of a job of processes over TCP. Returns when all ranks have connected.
    ///
    /// Errors: [`InvalidArgument`](crate::Code::InvalidArgument) for a malformed address or a rank used
    /// twice; [`Permission`](crate::Code::Permission) for a different secret;
    /// [`Timeout`](crate::Code::Timeout) names the ranks that did not connect;
    /// [`Unavailable`](crate::Code::Unavailable).
    pub fn join(address: &Address) -> Result<Self> {
        address.with_raw(|raw| Self::make(|out| unsafe { sys::hws_comm_create_address(raw, out) }))
    }

    /// Makes one rank like [`Comm::join`], with rank, world size and address from the environment variables
    /// of a launcher: torchrun, Open MPI, Slurm, PMIx, PMI, or an indexed job of Kubernetes.
    pub fn from_env() -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_comm_create_env(ptr::null(), out) })
    }

    /// Makes one rank like [`Comm::from_env`], with fields that override the variables. Rank and world size
    /// must be 0; the job is appended to the launcher's job name.
    pub fn from_env_with(overrides: &Address) -> Result<Self> {
        overrides.with_raw(|raw| Self::make(|out| unsafe { sys::hws_comm_create_env(raw, out) }))
    }

    /// Returns the settings that [`Comm::from_env`] would use, without connecting.
    pub fn read_env() -> Result<Value> {
        json(|out| unsafe { sys::hws_comm_read_env(out) })
    }

    /// Makes one rank over your own transport, which is dropped when it is no longer used.
    pub fn host<T: Transport>(transport: T, rank: u16, world_size: u16) -> Result<Self> {
        crate::library::ready()?;
        let raw = transport::raw(transport, rank.into(), world_size.into());
        // SAFETY: the library copies `raw`, owns its user, and destroys it once, also when the call fails.
        Self::make(|out| unsafe { sys::hws_comm_create_host(&raw, out) })
    }

    /// Returns kind, world size and local ranks.
    pub fn info(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_comm_info(self.raw(), out) })
    }

    pub(crate) fn raw(&self) -> *const sys::hws_comm {
        self.0.get()
    }
}

impl Address {
    /// Calls `use_it` with the struct of the C API, valid during the call.
    fn with_raw<R>(&self, use_it: impl FnOnce(&sys::hws_comm_address) -> Result<R>) -> Result<R> {
        let address = optional("address", &self.address)?;
        let host = optional("host", &self.host)?;
        let network_interface = optional("network_interface", &self.network_interface)?;
        let job = optional("job", &self.job)?;
        let (file, bytes) = match &self.secret {
            None => (None, None),
            Some(Secret::File(path)) => (Some(c_path("secret", path)?), None),
            Some(Secret::Bytes(bytes)) => (None, Some(bytes)),
        };
        let seconds = |duration: Option<Duration>| duration.map_or(0.0, |duration| duration.as_secs_f64());
        use_it(&sys::hws_comm_address {
            struct_size: struct_size::<sys::hws_comm_address>(),
            rank: self.rank.into(),
            world_size: self.world_size.into(),
            reserved: 0,
            address: pointer(&address),
            host: pointer(&host),
            network_interface: pointer(&network_interface),
            timeout_seconds: seconds(self.timeout),
            silence_seconds: seconds(self.silence),
            job: pointer(&job),
            secret_file: pointer(&file),
            secret: bytes.map(|_| tell_secret as _),
            secret_user: bytes.map_or(ptr::null_mut(), |bytes| ptr::from_ref(bytes).cast_mut().cast()),
            secret_destroy: None,
            trust_network: self.trust_network.into(),
            without_shared_memory: self.without_shared_memory.into(),
        })
    }
}

fn optional(name: &str, text: &str) -> Result<Option<CString>> {
    if text.is_empty() {
        return Ok(None);
    }
    c_string(name, text).map(Some)
}

fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

/// Copies the secret, or fails if it is longer than any secret may be.
unsafe extern "C" fn tell_secret(
    user: *mut c_void,
    data: *mut c_void,
    capacity: usize,
    bytes: *mut usize,
) -> i32 {
    // SAFETY: `user` is the Vec of `with_raw`; `data` has `capacity` bytes.
    unsafe {
        let secret = &*user.cast::<Vec<u8>>();
        *bytes = secret.len();
        if secret.len() > capacity {
            return 1;
        }
        slice::from_raw_parts_mut(data.cast::<u8>(), secret.len()).copy_from_slice(secret);
    }
    0
}
