//! One training job: what it is asked to do, how far it is, and its folder:
//!   job.json        this state, replaced as a whole when it changes
//!   metrics.jsonl   a row for each step
//!   checkpoints/    step-N, from which a restarted service goes on
//!   model/          the trained model as a Hugging Face folder, when it is done
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

/// An error as the service answers it.
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
    pub loss: Option<f64>, // of the last step
    pub error: Option<Problem>,

    #[serde(skip)]
    pub folder: PathBuf,
    #[serde(skip)]
    pub cancel: Arc<AtomicBool>, // somebody wants it to end
    #[serde(skip)]
    pub row_bytes: u64, // so much of metrics.jsonl can be read
    #[serde(skip)]
    pub monitor: Option<Monitor>, // while it trains
}

impl Job {
    /// Reads it from a folder. A job that was running is queued again.
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

    /// Takes over how far its engine is.
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

/// metrics.jsonl, to append to it.
pub struct Rows {
    file: File,
    pub bytes: u64,        // of whole rows
    pub loss: Option<f64>, // of the last row
}

impl Rows {
    /// Drops the rows after `step`, which will be written again.
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
            self.file.set_len(self.bytes)?; // without the half of a row
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }
}
