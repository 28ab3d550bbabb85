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
//! * [`Config`] says what to train; [`Plan`] what that costs. Their reports are structs or [`serde_json::Value`]s.
//! * [`Engine`] trains, evaluates, generates, saves and loads.
//! * [`Monitor`] watches and cancels it from other threads.
//! * [`Comm`] joins ranks: threads, processes, or over a [`Transport`] of your own.
//!
//! # Threads
//! Everything here is `Send` and `Sync`. What may run beside other calls takes `&self`, the rest `&mut self`.
//!
//! # Callbacks
//! Closures that a call needs only while it runs are borrowed; a data source, a metrics callback and an
//! interrupt poll are kept. Their panics go on from the call that ran them, and their errors are returned as
//! themselves. Nothing unwinds through the library.
//!
//! # Errors
//! [`Error`] says what failed, where, on which value, and what to do; [`Error::code`] is for `match`, and
//! [`Error::pointer`] and [`Error::details`] for programs. A library of another ABI is
//! [`Code::AbiMismatch`] at the first call, with both numbers and the library's path.
//!
//! # Library
//! The build needs `libhawser.so`: in `HAWSER_LIB_DIR`, or where `pkg-config` finds it. See the README.

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
    export_checkpoint, export_checkpoint_adapter, import_checkpoint, inspect_checkpoint, latest_checkpoint,
    verify_checkpoint, Damaged, ExportType, LoadData, Loaded, Operation, OperationProgress,
};
pub use comm::{Address, Comm, Secret};
pub use config::{Config, Plan, PlanReport, Problem, Proof};
pub use engine::Engine;
pub use error::{Code, Error, Result};
pub use evaluate::{Evaluation, GenerateRequest};
pub use library::{
    clear_thread_interrupt, devices, library_abi, library_info, library_version, measure_cpu, peak_flops,
    set_thread_interrupt, ABI_VERSION,
};
pub use monitor::Monitor;
pub use prepare::{prepare, preview};
pub use records::{Outcome, Phase, Progress, Record, Sizes, Step};
pub use telemetry::Trace;
pub use tensor::{Bf16, Element, Parameter, TensorKind, TensorView};
pub use tokenizer::{Tokenizer, TokenizerInfo};
pub use train::{Running, Steps};
pub use transport::Transport;
