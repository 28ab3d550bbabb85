//! Hawser trains transformer language models inside your program.
//!
//! ```no_run
//! fn main() -> hawser::Result<()> {
//!     let config = hawser::Config::from_value(&serde_json::json!({
//!         "model": {"vocab_size": 256, "context": 128, "layers": 4, "width": 128, "heads": 4},
//!         "data": {"format": "text", "vocabulary": "bytes", "path": "shakespeare.txt"},
//!         "train": {"steps": 200}
//!     }))?;
//!     let mut engine = hawser::Engine::new(&config)?;
//!     engine.train_with(None, |record, _| {
//!         println!("{:5} {:.4}", record.step, record.loss);
//!         std::ops::ControlFlow::Continue(())
//!     })?;
//!     engine.export("shakespeare-model", hawser::ExportType::AsImported)
//! }
//! ```
//!
//! * A [`Config`] specifies what to train, and a [`Plan`] what that costs. Their reports are structs or
//!   [`serde_json::Value`]s.
//! * An [`Engine`] trains, evaluates, generates, saves and loads.
//! * A [`Monitor`] watches and cancels an engine from other threads.
//! * A [`Comm`] connects ranks: threads, processes, or ranks over your own [`Transport`].
//!
//! # Threads
//! Every type is `Send` and `Sync`. Functions that may run concurrently take `&self`; all others take `&mut
//! self`.
//!
//! # Callbacks
//! A call borrows a closure that it needs only while it runs. The library owns a data source, a metrics
//! callback and an interrupt poll. The panic of a closure resumes in the call that ran it, and its error is
//! returned unchanged. No panic unwinds through the library.
//!
//! # Errors
//! The text of an [`Error`] states what failed, where, on which value, and what to do. [`Error::code`] is for
//! `match`, and [`Error::pointer`] and [`Error::details`] are for programs. With a library of another ABI,
//! the first call returns [`Code::AbiMismatch`], with both ABI numbers and the library's path.
//!
//! # Library
//! The build needs `libhawser.so` in `HAWSER_LIB_DIR`, or in a folder that `pkg-config` finds. See the
//! README.

mod batch;
mod callback;
mod checkpoint;
mod comm;
mod config;
mod engine;
mod error;
mod evaluate;
mod library;
mod monitor;
mod prepare;
mod raw;
mod records;
mod telemetry;
mod tensor;
mod tokenizer;
mod train;
mod transport;

pub use batch::{Batch, SourceBatch, MASKED};
pub use checkpoint::{
    average_checkpoints, export_checkpoint, export_checkpoint_adapter, import_checkpoint, inspect_checkpoint,
    latest_checkpoint, verify_checkpoint, Damaged, ExportType, LoadData, Loaded, Operation,
    OperationProgress,
};
pub use comm::{Address, Comm, Secret};
pub use config::{Config, Plan, PlanReport, Problem, Proof};
pub use engine::Engine;
pub use error::{Code, Error, Result};
pub use evaluate::{Evaluation, GenerateRequest};
pub use library::{
    clear_thread_interrupt, clear_thread_progress, devices, library_abi, library_info, library_version,
    measure_cpu, peak_flops, set_thread_interrupt, set_thread_progress, ABI_VERSION,
};
pub use monitor::Monitor;
pub use prepare::{prepare, preview};
pub use records::{Outcome, Phase, Progress, Record, Sizes, Step};
pub use telemetry::Trace;
pub use tensor::{Bf16, Element, Parameter, TensorKind, TensorView};
pub use tokenizer::{Tokenizer, TokenizerInfo};
pub use train::{Running, Steps};
pub use transport::Transport;
