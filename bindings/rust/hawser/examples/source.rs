//! Trains on data that the program generates: sums such as "17+25=42". The loss covers only the digits after
//! "=". The source returns each batch by its position, so training resumes where it stopped. A bar shows the
//! progress.
//!   cargo run --example source -- CHECKPOINTS
use std::ops::ControlFlow::Continue;
use std::process::ExitCode;

use hawser::{Code, Config, Engine, LoadData, Record, SourceBatch};
use serde_json::json;

/// Returns the text of a sample, which depends only on the sample's number.
fn sum_of(sample: u64) -> String {
    let random = (sample + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (a, b) = (random >> 32 & 31, random >> 48 & 31);
    format!("{a}+{b}={};", a + b)
}

/// Fills a batch. Tokens are characters, and only the tokens of the answer are targets.
fn fill(batch: &mut SourceBatch<'_>) {
    let rows = batch.tokens.chunks_mut(batch.cols).zip(batch.targets.chunks_mut(batch.cols));
    for (sample, (tokens, targets)) in (batch.samples..).zip(rows) {
        let text = sum_of(sample).into_bytes();
        let answer = text.iter().position(|&c| c == b'=').map_or(0, |at| at + 1);
        for (t, pair) in text.windows(2).take(tokens.len()).enumerate() {
            tokens[t] = pair[0].into();
            if t + 1 >= answer {
                targets[t] = pair[1].into();
            }
        }
    }
}

fn show_bar(at: &Record) {
    let done = (40 * at.step / at.total_steps) as usize;
    let bar = "=".repeat(done);
    eprint!("\r[{bar:40}] {}/{}  loss {:.4} ", at.step, at.total_steps, at.loss);
    if at.step == at.total_steps {
        eprintln!();
    }
}

fn train(checkpoints: &str) -> hawser::Result<()> {
    let config = Config::from_value(&json!({
        "model": {"vocab_size": 128, "context": 8, "layers": 2, "width": 64, "heads": 4},
        "batch": {"micro_batch": 32},
        "optimizer": {"learning_rate": 0.003},
        "schedule": {"kind": "cosine", "warmup_steps": 20},
        "train": {"steps": 400},
        "checkpoint": {"path": checkpoints, "every": 100}
    }))?;
    let mut engine = Engine::new(&config)?;
    match engine.load_latest(checkpoints, LoadData::Same) {
        Ok(loaded) => println!("goes on after step {}", loaded.step),
        Err(error) if error.code() == Code::NotFound => {} // there is no checkpoint at the first start
        Err(error) => return Err(error),
    }
    engine.set_source(|batch| {
        fill(batch);
        Ok(Continue(())) // the source never ends
    })?;
    let mut last = None;
    engine.train_with(None, |record, _| {
        show_bar(record);
        last = Some(record.loss);
        Continue(())
    })?;
    if let Some(loss) = last {
        println!("loss {loss:.4}");
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [checkpoints] = &arguments[..] else {
        eprintln!("usage: source CHECKPOINTS");
        return ExitCode::from(2);
    };
    if let Err(error) = train(checkpoints) {
        eprintln!("source: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
