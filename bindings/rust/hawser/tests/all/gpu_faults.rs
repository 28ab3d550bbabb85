//! Tests that Rust returns the errors of a machine whose driver, GPU, libraries or memory do not suffice.
//! HAWSER_GPU_FAULT names the file that chooses the fault of the library of rust_gpu_faults.

use std::{env, fs};

use hawser::{Config, Engine};
use serde_json::Value;

#[test]
fn each_has_its_code_and_its_message() {
    let Some(fault) = env::var_os("HAWSER_GPU_FAULT") else {
        return eprintln!("HAWSER_GPU_FAULT is not set: no GPU has faults");
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/bindings/gpu_faults.json");
    let table: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let config = Config::from_value(&table["config"]).unwrap();
    for row in table["faults"].as_array().unwrap() {
        fs::write(&fault, row["fault"].as_str().unwrap()).unwrap();
        let error = Engine::new(&config).map(|_| ()).unwrap_err();
        assert_eq!(format!("{:?}", error.code()), row["error"].as_str().unwrap(), "{error}");
        for part in row["says"].as_array().unwrap() {
            let part = part.as_str().unwrap();
            assert!(error.message().contains(part), "{part:?} is not in {error}");
        }
    }
}
