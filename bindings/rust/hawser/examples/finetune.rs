//! Fine-tunes a Hugging Face folder on pairs of prompt and answer, and writes it back as a Hugging Face folder.
//!   cargo run --example finetune -- MODEL PAIRS OUT
//! PAIRS contains token ids of the model's own tokenizer, one pair per line: "15 496 11 | 318 13". The loss
//! covers only the answers; the positions of the prompts are masked. Training can resume from OUT/checkpoint
//! bit for bit (`Engine::load`). Transformers can load OUT/model.
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use hawser::{Batch, Config, Engine, ExportType, MASKED};
use serde_json::json;

const STEPS: usize = 60;

struct Pair {
    tokens: Vec<i32>, // prompt and answer
    prompt: usize,    // number of tokens in the prompt
}

impl Pair {
    fn parse(line: &str) -> Option<Self> {
        let ids = |text: &str| -> Option<Vec<i32>> {
            text.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let (prompt, answer) = line.split_once('|')?;
        let (mut tokens, answer) = (ids(prompt)?, ids(answer)?);
        if tokens.is_empty() || answer.is_empty() {
            return None;
        }
        let prompt = tokens.len();
        tokens.extend(answer);
        Some(Self { tokens, prompt })
    }

    /// Writes one row: position t sees tokens[..=t] and predicts tokens[t + 1].
    fn write(&self, tokens: &mut [i32], targets: &mut [i32]) {
        tokens.fill(0);
        targets.fill(MASKED);
        tokens[..self.tokens.len()].copy_from_slice(&self.tokens);
        let answer = &self.tokens[self.prompt..];
        targets[self.prompt - 1..][..answer.len()].copy_from_slice(answer);
    }
}

fn read_pairs(path: &str) -> Result<Vec<Pair>, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let pair = |line| Pair::parse(line).ok_or(format!("{path}: \"{line}\" is not of the form: ids | ids"));
    let pairs: Vec<Pair> = text.lines().map(pair).collect::<Result<_, _>>()?;
    if pairs.is_empty() {
        return Err(format!("{path} holds no pairs").into());
    }
    Ok(pairs)
}

fn finetune(model: &str, pairs: &[Pair], out: &Path) -> Result<(), Box<dyn Error>> {
    let longest = pairs.iter().map(|pair| pair.tokens.len()).max().unwrap_or(0);
    let mut config = Config::from_model(model)?; // sets model and weights
    config
        .set("/batch", json!({"sequence": longest, "micro_batch": 4, "grad_accum_steps": 2}))?
        .set("/optimizer/learning_rate", 0.001)?
        .set("/schedule", json!({"kind": "linear", "warmup_steps": 5}))?
        .set("/train/steps", STEPS)?;
    let mut engine = Engine::new(&config)?;

    let sizes = engine.sizes()?;
    let (rows, cols) = (sizes.global_batch, sizes.sequence);
    let (mut tokens, mut targets) = (vec![0; rows * cols], vec![0; rows * cols]);
    let mut next = pairs.iter().cycle();
    for _ in 0..STEPS {
        for (tokens, targets) in tokens.chunks_mut(cols).zip(targets.chunks_mut(cols)) {
            next.next().ok_or("no pairs")?.write(tokens, targets);
        }
        engine.push(&Batch::new(rows, cols, &tokens).with_targets(&targets))?;
        let step = engine.train_step()?;
        if step.step % 10 == 1 || step.step == STEPS as u64 {
            println!(
                "step {:2}: loss {:.4} over {} answer tokens, learning rate {:.1e}",
                step.step, step.loss, step.tokens, step.learning_rate
            );
        }
    }
    fs::create_dir_all(out)?;
    engine.save(out.join("checkpoint"))?;
    engine.export(out.join("model"), ExportType::AsImported)?;
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, pairs, out] = &arguments[..] else {
        eprintln!("usage: finetune MODEL PAIRS OUT");
        return ExitCode::from(2);
    };
    if Path::new(out).exists() {
        eprintln!("finetune: {out} exists; give a new folder");
        return ExitCode::from(2);
    }
    if let Err(error) = read_pairs(pairs).and_then(|pairs| finetune(model, &pairs, Path::new(out))) {
        eprintln!("finetune: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
