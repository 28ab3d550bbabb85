//! Tests that losses equal those of tests/bindings/losses.c bit for bit. HAWSER_LOSSES names the file that it
//! wrote.

use std::{env, fs};

use hawser::{Batch, Comm, Config, Engine};
use serde_json::Value;

fn integers(value: &Value) -> Vec<i32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn bits(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap().to_bits()).collect()
}

#[test]
fn losses_are_those_of_c_bit_for_bit() {
    let Some(path) = env::var_os("HAWSER_LOSSES") else {
        return eprintln!("HAWSER_LOSSES is not set: nothing to compare with");
    };
    let expected: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let (rows, cols) =
        (expected["rows"].as_u64().unwrap() as usize, expected["columns"].as_u64().unwrap() as usize);
    let runs = expected["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let config = Config::from_value(&run["config"]).unwrap();
        let mut engine = match run["ranks"].as_u64().unwrap() as u16 {
            1 => Engine::new(&config),
            ranks => Engine::with_comm(&config, &Comm::local(ranks).unwrap()),
        }
        .unwrap();
        let (mut losses, mut norms) = (Vec::new(), Vec::new());
        for batch in expected["batches"].as_array().unwrap() {
            let (tokens, targets) = (integers(&batch["tokens"]), integers(&batch["targets"]));
            engine.push(&Batch::new(rows, cols, &tokens).with_targets(&targets)).unwrap();
            let step = engine.train_step().unwrap();
            losses.push(step.loss.to_bits());
            norms.push(step.grad_norm.to_bits());
        }
        assert_eq!(losses, bits(&run["losses"]), "losses of {}", run["name"]);
        assert_eq!(norms, bits(&run["grad_norms"]), "norms of {}", run["name"]);
    }
}
