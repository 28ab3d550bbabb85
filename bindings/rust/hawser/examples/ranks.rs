//! Trains one model on four ranks in one process. Each rank stores a quarter of its weights, gradients and
//! moments (ZeRO-3). With another comm, the same config trains on one process or machine per rank, with
//! bit-identical results.
//!   cargo run --example ranks -- BOOK.txt
use std::process::ExitCode;

use hawser::{Comm, Config, Engine};
use serde_json::json;

fn train(text: &str) -> hawser::Result<()> {
    let comm = Comm::local(4)?; // use Comm::from_env() under mpirun, torchrun or srun
    let mut config = Config::preset("quickstart")?;
    config.set("/data/path", text)?.set("/train/steps", 20)?.set("/schedule/warmup_steps", 5)?;
    config.set("/mesh", json!({"dp_shard": 4}))?.set("/zero/stage", 3)?;
    config.set("/batch", json!({"micro_batch": 2, "global_batch": 8}))?;

    let mut engine = Engine::with_comm(&config, &comm)?; // drives all ranks of this process
    for step in engine.steps(None)? {
        let step = step?;
        println!("step {}: loss {}", step.step, step.loss); // the loss of the global batch
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [text] = &arguments[..] else {
        eprintln!("usage: ranks TEXT");
        return ExitCode::from(2);
    };
    if let Err(error) = train(text) {
        eprintln!("ranks: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
