//! Helpers: a model of some 20,000 parameters, batches for it, and temporary folders.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use hawser::{Batch, Config, Engine, SourceBatch, MASKED};
use serde_json::{json, Value};

pub const ROWS: usize = 4;
pub const COLS: usize = 16;
pub const VOCABULARY: u32 = 61;

pub fn json() -> Value {
    json!({
        "seed": 7, "cpu": {"threads": 2},
        "model": {"vocab_size": VOCABULARY, "context": 16, "layers": 2, "width": 32, "heads": 4},
        "batch": {"micro_batch": 2, "grad_accum_steps": 2, "sequence": COLS},
        "optimizer": {"kind": "adamw", "learning_rate": 0.01}, "train": {"steps": 8}
    })
}

pub fn config() -> Config {
    Config::from_value(&json()).unwrap()
}

pub fn engine() -> Engine {
    Engine::new(&config()).unwrap()
}

/// Makes an engine whose source returns batches of [`Tokens`] by position.
pub fn sourced() -> Engine {
    let mut engine = engine();
    engine
        .set_source(|batch| {
            Tokens::new(batch.samples as u32 / ROWS as u32 + 1).copy_to(batch);
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    engine
}

/// A batch made from a number; each target is the next token.
pub struct Tokens {
    pub tokens: Vec<i32>,
    pub targets: Vec<i32>,
}

impl Tokens {
    pub fn new(seed: u32) -> Self {
        let mut random = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
        let mut next = |_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((random >> 16) % VOCABULARY) as i32
        };
        let tokens: Vec<i32> = (0..ROWS * COLS).map(&mut next).collect();
        let target = |i| if i % COLS == COLS - 1 { MASKED } else { tokens[i + 1] };
        Self { targets: (0..tokens.len()).map(target).collect(), tokens }
    }

    pub fn batch(&self) -> Batch<'_> {
        Batch::new(ROWS, COLS, &self.tokens).with_targets(&self.targets)
    }

    pub fn copy_to(&self, batch: &mut SourceBatch<'_>) {
        batch.tokens.copy_from_slice(&self.tokens);
        batch.targets.copy_from_slice(&self.targets);
    }
}

/// A temporary folder, deleted with the object.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("hawser-rust-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes a config that reads the bytes of a text, which this function writes.
pub fn text_config(folder: &Folder) -> Config {
    let line = |i: usize| format!("line {} of a text that is easy to learn\n", i % 10);
    fs::write(folder.file("text.txt"), (0..400).map(line).collect::<String>()).unwrap();
    let mut config = config();
    config
        .set("/data", json!({"format": "text", "vocabulary": "bytes", "path": folder.file("text.txt")}))
        .unwrap()
        .set("/model/vocab_size", 256)
        .unwrap()
        .set("/train", json!({"steps": 8, "eval_every": 4, "eval_batches": 2}))
        .unwrap();
    config
}
