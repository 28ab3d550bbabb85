//! All jobs of the service, and the worker that trains them one after the other. Any thread may call the
//! functions.
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::num::NonZeroU32;
use std::ops::ControlFlow::Continue;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use hawser::{Code, Config, Engine, ExportType, LoadData};
use serde::Deserialize;
use serde_json::{json, Map, Value};

use crate::job::{Job, Problem, Rows, State};

/// A refused request.
pub struct Refused {
    pub status: StatusCode,
    pub error: Problem,
}

impl Refused {
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, error: Problem { code: code.into(), message: message.into(), details: Value::Null } }
    }

    fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }

    fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "CONFLICT", message)
    }

    fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }
}

/// Converts errors of the disk.
impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "DISK_FULL", error.to_string())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    name: String,
    config: Map<String, Value>,
    #[serde(default = "ten")]
    checkpoint_every: NonZeroU32,
}

fn ten() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(9)
}

impl Request {
    fn parse(body: &[u8]) -> Result<Self, Refused> {
        let request: Self = serde_json::from_slice(body).map_err(|error| Refused::bad(error.to_string()))?;
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        if !(1..=64).contains(&request.name.len()) || !request.name.bytes().all(allowed) {
            return Err(Refused::bad(format!("name is {:?}; give 1 to 64 of a-z, 0-9 and -", request.name)));
        }
        Ok(request)
    }

    /// Returns the number of steps of the job's config, or all problems of the config.
    fn total_steps(&self) -> Result<u64, Refused> {
        let checked = || -> hawser::Result<_> {
            let config = Config::from_value(&self.config)?;
            Ok((config.validate()?, config.resolved()?["train"]["steps"].as_u64()))
        };
        let refused = |error| Refused { status: StatusCode::BAD_REQUEST, error };
        let (problems, steps) = checked().map_err(|error| refused(error.into()))?;
        if problems.is_empty() {
            return Ok(steps.unwrap_or(0));
        }
        let lines = problems.iter().map(|p| format!("{}: {}; {}", p.pointer, p.message, p.fix));
        Err(refused(Problem {
            code: Code::ConfigInvalid.name().into(),
            message: lines.collect::<Vec<_>>().join("\n"),
            details: json!({"problems": problems}),
        }))
    }
}

/// The config fields that name files and folders.
const PATHS: [&str; 10] = [
    "/data/path",
    "/init/from",
    "/init/base",
    "/adapter/from",
    "/objective/reference",
    "/teacher/from",
    "/checkpoint/path",
    "/offload/folder",
    "/cuda/algorithm_cache",
    "/telemetry/tensorboard",
];
const SOURCES: [&str; 2] = ["/data/sources", "/data/validation_sources"];

/// Returns the path with links resolved in the part that exists.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for known in path.ancestors() {
        if let Ok(real) = known.canonicalize() {
            let rest = path.strip_prefix(known).unwrap_or(Path::new(""));
            // A ".." after a folder that does not exist cannot be resolved, so it is refused.
            if rest.components().any(|part| part == Component::ParentDir) {
                return Err(io::Error::other("the path has .. after a folder that does not exist"));
            }
            return Ok(real.join(rest));
        }
    }
    Ok(path)
}

/// Refuses a config that reads or writes anything outside of `root`. Links are followed.
fn check_paths(config: &Map<String, Value>, root: &Path) -> Result<(), Refused> {
    let config = Value::Object(config.clone());
    let sources = SOURCES.iter().filter_map(|at| config.pointer(at)?.as_array());
    let named = PATHS.iter().filter_map(|at| config.pointer(at));
    for path in named.chain(sources.flatten().filter_map(|source| source.get("path"))) {
        let Some(path) = path.as_str() else { continue };
        if !real_path(Path::new(path)).is_ok_and(|real| real.starts_with(root)) {
            let message = format!("{path:?} is not below {}, the folder of --root", root.display());
            return Err(Refused::new(StatusCode::BAD_REQUEST, "NOT_ALLOWED", message));
        }
    }
    Ok(())
}

pub struct Jobs {
    folder: PathBuf,
    root: Option<PathBuf>,
    jobs: Mutex<BTreeMap<String, Job>>,
    changed: Condvar,
    stopped: Arc<AtomicBool>,
}

impl Jobs {
    /// Reads the jobs in a folder. New jobs may read and write only below `root`; None allows every path.
    pub fn open(folder: &Path, root: Option<&Path>) -> io::Result<Self> {
        let root = root.map(Path::canonicalize).transpose()?;
        fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        let mut jobs = BTreeMap::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.join("job.json").exists() {
                let job = Job::restore(&path)?;
                jobs.insert(job.name.clone(), job);
            }
        }
        Ok(Self { folder, root, jobs: Mutex::new(jobs), changed: Condvar::new(), stopped: Arc::default() })
    }

    /// Ends the running job after its current step; its state on disk remains "running". Metrics streams end.
    pub fn stop(&self) {
        let _lock = self.lock();
        self.stopped.store(true, Relaxed);
        self.changed.notify_all();
    }

    // ---- requests

    pub fn add(&self, body: &[u8]) -> Result<Value, Refused> {
        let request = Request::parse(body)?;
        if let Some(root) = &self.root {
            check_paths(&request.config, root)?;
        }
        let total_steps = request.total_steps()?;
        let mut jobs = self.lock();
        let folder = self.folder.join(&request.name);
        if jobs.contains_key(&request.name) || folder.exists() {
            return Err(Refused::conflict(format!("there is a job {:?} already", request.name)));
        }
        let job = Job {
            number: jobs.values().map(|job| job.number + 1).max().unwrap_or(0),
            config: request.config,
            checkpoint_every: request.checkpoint_every,
            state: State::Queued,
            step: 0,
            total_steps,
            loss: None,
            error: None,
            folder,
            cancel: Arc::default(),
            row_bytes: 0,
            monitor: None,
            name: request.name,
        };
        if let Err(error) = fs::create_dir(&job.folder).and_then(|()| job.store()) {
            _ = fs::remove_dir_all(&job.folder);
            return Err(error.into());
        }
        let answer = json!({"name": job.name, "state": job.state});
        jobs.insert(job.name.clone(), job);
        self.changed.notify_all();
        Ok(answer)
    }

    pub fn list(&self) -> Value {
        let mut jobs = self.lock();
        let mut all: Vec<&mut Job> = jobs.values_mut().collect();
        all.sort_by_key(|job| job.number);
        json!({"jobs": all.into_iter().map(Job::view).collect::<Vec<_>>()})
    }

    pub fn get(&self, name: &str) -> Result<Value, Refused> {
        Ok(find(&mut self.lock(), name)?.view())
    }

    pub fn cancel(&self, name: &str) -> Result<Value, Refused> {
        let mut jobs = self.lock();
        let job = find(&mut jobs, name)?;
        if job.state.is_ended() {
            return Err(Refused::conflict(format!("the job {name:?} has ended: it is {}", job.state.name())));
        }
        job.cancel.store(true, Relaxed); // the worker checks this after each step
        if job.state == State::Queued {
            job.state = State::Cancelled;
            job.store()?;
            self.changed.notify_all();
        }
        Ok(json!({"name": name, "state": job.state}))
    }

    /// Returns rows of metrics from a byte offset on; waits at most half a second for one. None means the
    /// end.
    pub fn rows(&self, name: &str, from: u64) -> Result<Option<Vec<u8>>, Refused> {
        let mut jobs = self.lock();
        find(&mut jobs, name)?;
        let waits = |jobs: &mut BTreeMap<String, Job>| {
            let job = &jobs[name];
            job.row_bytes <= from && !job.state.is_ended() && !self.stopped.load(Relaxed)
        };
        let waited = self.changed.wait_timeout_while(jobs, Duration::from_millis(500), waits);
        let (jobs, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let job = &jobs[name];
        let bytes = job.row_bytes.saturating_sub(from);
        if bytes == 0 {
            return Ok(if job.state.is_ended() || self.stopped.load(Relaxed) { None } else { Some(vec![]) });
        }
        let mut file = File::open(job.folder.join("metrics.jsonl"))?;
        drop(jobs);
        let mut rows = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(bytes.min(1 << 16)).read_to_end(&mut rows)?;
        Ok(Some(rows))
    }

    /// Returns {"files": [{"name", "bytes"}]}.
    pub fn model(&self, name: &str) -> Result<Value, Refused> {
        let mut jobs = self.lock();
        let job = find(&mut jobs, name)?;
        if job.state != State::Done {
            return Err(Refused::conflict(format!("the job {name:?} is {}, not done", job.state.name())));
        }
        let file = |entry: io::Result<fs::DirEntry>| -> io::Result<Value> {
            let entry = entry?;
            Ok(json!({"name": entry.file_name().to_string_lossy(), "bytes": entry.metadata()?.len()}))
        };
        let files = fs::read_dir(job.folder.join("model"))?.map(file).collect::<io::Result<Vec<_>>>()?;
        Ok(json!({"files": files}))
    }

    pub fn model_file(&self, name: &str, file: &str) -> Result<PathBuf, Refused> {
        let model = self.model(name)?;
        let mut files = model["files"].as_array().into_iter().flatten();
        if files.any(|entry| entry["name"] == file) {
            return Ok(self.folder.join(name).join("model").join(file));
        }
        Err(Refused::not_found(format!("the model of {name:?} has no file {file:?}")))
    }

    // ---- the worker

    /// Trains jobs until the service stops.
    pub fn work(&self) {
        while let Some(name) = self.next() {
            self.run(&name);
        }
    }

    /// Waits for the queued job that arrived first, and returns it; None if the service is stopping.
    fn next(&self) -> Option<String> {
        let waits = |jobs: &mut BTreeMap<String, Job>| {
            !self.stopped.load(Relaxed) && !jobs.values().any(|job| job.state == State::Queued)
        };
        let mut jobs = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        if self.stopped.load(Relaxed) {
            return None;
        }
        let queued = jobs.values_mut().filter(|job| job.state == State::Queued);
        let job = queued.min_by_key(|job| job.number)?;
        job.state = State::Running;
        Some(job.name.clone())
    }

    fn run(&self, name: &str) {
        let result = self.with(name, |job| job.store()).map_err(io_error).and_then(|()| self.train(name));
        self.with(name, |job| {
            let cancelled = job.cancel.load(Relaxed);
            job.state = match result {
                Ok(()) | Err(_) if cancelled => State::Cancelled,
                Ok(()) => State::Done,
                Err(error) if error.code() == Code::Cancelled => State::Running, // the next start resumes the job
                Err(error) => {
                    job.error = Some(error.into());
                    State::Failed
                }
            };
            _ = job.store(); // if the disk is full, the next start runs the job again
        });
        self.changed.notify_all();
    }

    /// Trains a job from its newest checkpoint, if it has one, and exports the model.
    fn train(&self, name: &str) -> hawser::Result<()> {
        let (folder, cancel) = self.with(name, |job| (job.folder.clone(), job.cancel.clone()));
        let stopped = self.stopped.clone();
        hawser::set_thread_interrupt(move || stopped.load(Relaxed) || cancel.load(Relaxed))?;
        let (checkpoints, model) = (folder.join("checkpoints"), folder.join("model"));
        let (config, every) = self.with(name, |job| (Config::from_value(&job.config), job.checkpoint_every));
        let mut config = config?;
        config.set("/checkpoint/path", &checkpoints)?.set("/checkpoint/every", every)?;
        let mut engine = Engine::new(&config)?;
        match engine.load_latest(&checkpoints, LoadData::Same) {
            Err(error) if error.code() != Code::NotFound => return Err(error),
            _ => {} // loaded, or the job has no checkpoint yet
        }
        let mut rows = Rows::open(&folder, engine.progress()?.step).map_err(io_error)?;
        self.with(name, |job| {
            (job.loss, job.row_bytes, job.monitor) = (rows.loss, rows.bytes, Some(engine.monitor()));
        });
        let trained = engine.try_train_with(None, |record, _| -> hawser::Result<_> {
            rows.append(record).map_err(io_error)?;
            self.with(name, |job| job.row_bytes = rows.bytes);
            self.changed.notify_all();
            Ok(Continue(()))
        });
        self.with(name, |job| {
            job.follow();
            job.monitor = None;
        });
        trained?;
        if model.exists() {
            fs::remove_dir_all(&model).map_err(io_error)?; // left by a service that was killed
        }
        engine.export(&model, ExportType::AsImported)
    }

    fn with<T>(&self, name: &str, change: impl FnOnce(&mut Job) -> T) -> T {
        change(self.lock().get_mut(name).expect("jobs are never removed"))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<'a>(jobs: &'a mut BTreeMap<String, Job>, name: &str) -> Result<&'a mut Job, Refused> {
    jobs.get_mut(name).ok_or_else(|| Refused::not_found(format!("there is no job {name:?}")))
}

fn io_error(error: io::Error) -> hawser::Error {
    hawser::Error::new(Code::Io, format!("cannot write the job's folder: {error}"))
}
