//! One training job: its request, its progress, and its folder, which contains
//!   job.json        the job's state; a change replaces the whole file
//!   metrics.jsonl   one row per step
//!   checkpoints/    step-N, from which a restarted service resumes
//!   model/          the trained model as a Hugging Face folder, once the job is done
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use hawser::{Monitor, Record};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Queued,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl State {
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The error in a response of the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Problem {
    pub code: String,
    pub message: String,
    pub details: Value,
}

impl From<hawser::Error> for Problem {
    fn from(error: hawser::Error) -> Self {
        Self {
            code: error.code().name().into(),
            message: error.message().into(),
            details: error.details().clone(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub struct Job {
    pub name: String,
    pub number: u64, // order of arrival
    pub config: Map<String, Value>,
    pub checkpoint_every: NonZeroU32,
    pub state: State,
    pub step: u64,
    pub total_steps: u64,
    pub loss: Option<f64>, // loss of the last step
    pub error: Option<Problem>,

    #[serde(skip)]
    pub folder: PathBuf,
    #[serde(skip)]
    pub cancel: Arc<AtomicBool>, // cancellation was requested
    #[serde(skip)]
    pub row_bytes: u64, // bytes of metrics.jsonl that can be read
    #[serde(skip)]
    pub monitor: Option<Monitor>, // set while the job trains
}

impl Job {
    /// Reads a job from a folder. A job that was running is queued again.
    pub fn restore(folder: &Path) -> io::Result<Self> {
        let mut job: Self = serde_json::from_slice(&fs::read(folder.join("job.json"))?)?;
        job.folder = folder.to_owned();
        if job.state == State::Running {
            job.state = State::Queued;
        }
        if job.state.is_ended() {
            job.row_bytes = fs::metadata(folder.join("metrics.jsonl")).map_or(0, |file| file.len());
        }
        Ok(job)
    }

    /// Writes job.json.
    pub fn store(&self) -> io::Result<()> {
        let fresh = self.folder.join("job.json.new");
        let mut file = File::create(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(fresh, self.folder.join("job.json"))
    }

    /// Copies the progress of the job's engine.
    pub fn follow(&mut self) {
        if let Some(now) = self.monitor.and_then(|monitor| monitor.progress().ok()) {
            self.step = now.step;
            self.loss = now.loss.or(self.loss);
        }
    }

    pub fn view(&mut self) -> Value {
        self.follow();
        json!({"name": self.name, "state": self.state, "step": self.step, "total_steps": self.total_steps,
               "loss": self.loss, "error": self.error})
    }
}

/// The file metrics.jsonl, opened to append rows.
pub struct Rows {
    file: File,
    pub bytes: u64,        // size of the complete rows
    pub loss: Option<f64>, // loss of the last row
}

impl Rows {
    /// Removes the rows after `step`, because they will be written again.
    pub fn open(folder: &Path, step: u64) -> io::Result<Self> {
        let path = folder.join("metrics.jsonl");
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let mut rows = Self { file, bytes: 0, loss: None };
        let mut old = BufReader::new(File::open(path)?);
        let mut line = String::new();
        while old.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let row: Value = serde_json::from_str(&line)?;
            if row["step"].as_u64().is_none_or(|at| at > step) {
                break;
            }
            rows.loss = row["loss"].as_f64();
            rows.bytes += line.len() as u64;
            line.clear();
        }
        rows.file.set_len(rows.bytes)?;
        Ok(rows)
    }

    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            self.file.set_len(self.bytes)?; // removes the incomplete row
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }
}
