//! Trains a small model from scratch on a text, continues a prompt with it, and exports it as a Hugging Face
//! folder.
//!   cargo run --example train -- BOOK.txt MODEL
use std::ops::ControlFlow::Continue;
use std::path::Path;
use std::process::ExitCode;

use hawser::{Config, Engine, ExportType, GenerateRequest};
use serde_json::json;

fn train(text: &str, model: &str) -> hawser::Result<()> {
    let mut config = Config::preset("quickstart")?;
    config
        .set("/data/path", text)?
        .set("/train", json!({"steps": 100, "eval_every": 50, "eval_batches": 4}))?;
    let mut engine = Engine::new(&config)?;
    engine.train_with(None, |record, _| {
        if record.step % 20 == 0 {
            println!("step {}: loss {:.3}", record.step, record.loss);
        }
        if let Some(loss) = record.validation_loss {
            println!("validation: loss {loss:.3}");
        }
        Continue(())
    })?;

    let prompt = engine.encode("The ")?;
    let request = GenerateRequest { temperature: 0.8, ..GenerateRequest::new(&prompt, 60) };
    let tokens = engine.generate(&request)?;
    println!("The {}", engine.decode(&tokens)?);
    engine.export(model, ExportType::Bf16)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [text, model] = &arguments[..] else {
        eprintln!("usage: train TEXT MODEL");
        return ExitCode::from(2);
    };
    if Path::new(model).exists() {
        eprintln!("train: {model} exists; give a new folder");
        return ExitCode::from(2);
    }
    if let Err(error) = train(text, model) {
        eprintln!("train: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
