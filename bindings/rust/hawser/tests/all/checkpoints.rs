//! Tests checkpoints, operations and Hugging Face folders.

use std::time::Duration;
use std::{fs, thread};

use hawser::{Code, Config, Engine, ExportType, LoadData, TensorKind};

use crate::tiny::{self, Folder};

#[test]
fn a_resumed_run_has_the_bits_of_one_that_went_through() {
    let folder = Folder::new();
    let mut whole = tiny::sourced();
    whole.train(None).unwrap();
    let mut first = tiny::sourced();
    first.train(Some(3)).unwrap();
    first.save(folder.file("step-3")).unwrap();
    first.train(Some(5)).unwrap();
    let operation = first.save_async(folder.file("step-5")).unwrap();
    while !operation.wait_timeout(Duration::from_millis(1)).unwrap() {
        assert!(operation.progress().unwrap().done <= operation.progress().unwrap().total);
    }
    assert!(operation.is_ended().unwrap());
    operation.wait().unwrap();
    operation.cancel().unwrap(); // has no effect, because the save has ended
    drop(first);

    assert_eq!(hawser::inspect_checkpoint(folder.file("step-5")).unwrap()["step"], 5);
    assert_eq!(hawser::latest_checkpoint(folder.file("")).unwrap(), folder.file("step-5"));
    for from in [3, 5] {
        let mut second = tiny::sourced();
        second.load(folder.file(&format!("step-{from}")), LoadData::Same).unwrap();
        assert_eq!(second.progress().unwrap().step, from);
        second.train(None).unwrap();
        for parameter in whole.parameters().unwrap() {
            let [a, b] =
                [&whole, &second].map(|engine| engine.tensor(TensorKind::Weight, &parameter.name).unwrap());
            assert!(a.iter().zip(&b).all(|(a, b)| a.to_bits() == b.to_bits()), "{}", parameter.name);
        }
    }
}

#[test]
fn adapters_stand_on_one_base() {
    let folder = Folder::new();
    let engine = tiny::engine();
    engine.export(folder.file("base"), ExportType::F32).unwrap();
    let mut json = tiny::json();
    json["init"] = serde_json::json!({ "from": folder.file("base") });
    let base = Engine::new_inference(&Config::from_value(&json).unwrap()).unwrap();
    json["adapter"] = serde_json::json!({ "rank": 2 });
    let config = Config::from_value(&json).unwrap();
    let loss = |mut engine: Engine| -> f64 {
        for seed in 1..3 {
            engine.push(&tiny::Tokens::new(seed).batch()).unwrap();
            engine.train_step().unwrap();
        }
        engine.evaluate_batch(&tiny::Tokens::new(3).batch()).unwrap().loss
    };
    assert_eq!(Engine::on(&engine, &config, None).err().unwrap().code(), Code::FailedPrecondition);
    let engines = [(); 2].map(|()| Engine::on(&base, &config, None).unwrap());
    let losses =
        engines.map(|engine| thread::spawn(move || loss(engine))).map(|thread| thread.join().unwrap());
    assert_eq!(losses, [loss(Engine::new(&config).unwrap()); 2]);
    let look = Engine::on_inference(&base, &config, None).unwrap();
    drop(base);
    assert!(look.info().is_ok());
}

#[test]
fn damaged_checkpoints_are_passed_over_and_named() {
    let folder = Folder::new();
    let mut engine = tiny::sourced();
    assert_eq!(engine.load_latest(folder.file(""), LoadData::Same).unwrap_err().code(), Code::NotFound);
    for step in [1, 2] {
        engine.train(Some(step)).unwrap();
        engine.save(folder.file(&format!("step-{step}"))).unwrap();
    }
    let error = engine.save(folder.file("step-2")).unwrap_err();
    assert_eq!(error.code(), Code::AlreadyExists);
    let largest = fs::read_dir(folder.file("step-2")).unwrap().map(|entry| entry.unwrap());
    let largest = largest.max_by_key(|entry| entry.metadata().unwrap().len()).unwrap().path();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&largest, bytes).unwrap();
    let error = hawser::verify_checkpoint(folder.file("step-2")).unwrap_err();
    assert_eq!(error.code(), Code::CheckpointCorrupt);
    assert!(error.message().contains(largest.file_name().unwrap().to_str().unwrap()), "{error}");
    let loaded = engine.load_latest(folder.file(""), LoadData::Other).unwrap();
    assert_eq!((loaded.name.as_str(), loaded.step, loaded.damaged.len()), ("step-1", 1, 1));
    assert_eq!(loaded.damaged[0].name, "step-2");
}

#[test]
fn checkpoints_are_averaged() {
    let folder = Folder::new();
    let mut engine = Engine::new(&tiny::text_config(&folder)).unwrap();
    for name in ["one", "two"] {
        engine.train(Some(engine.info().unwrap()["step"].as_u64().unwrap() + 1)).unwrap();
        engine.save(folder.file(name)).unwrap();
    }
    let of = [folder.file("one"), folder.file("two")];
    hawser::average_checkpoints(&of, &[], folder.file("mean")).unwrap();
    hawser::average_checkpoints(&of, &[3.0, 1.0], folder.file("closer_to_one")).unwrap();
    assert_eq!(hawser::inspect_checkpoint(folder.file("mean")).unwrap()["step"], 2);
    hawser::verify_checkpoint(folder.file("closer_to_one")).unwrap();
    let refused =
        |weights: &[f64]| hawser::average_checkpoints(&of, weights, folder.file("x")).unwrap_err().code();
    assert_eq!(refused(&[1.0]), Code::InvalidArgument);
    assert_eq!(refused(&[1.0, 0.0]), Code::InvalidArgument);
}

#[test]
fn hugging_face_folders_go_out_and_in() {
    let folder = Folder::new();
    let config = tiny::text_config(&folder);
    let mut engine = Engine::new(&config).unwrap();
    engine.train(Some(2)).unwrap();
    engine.export(folder.file("model"), ExportType::AsImported).unwrap();
    assert!(folder.file("model/config.json").exists());
    hawser::import_checkpoint(folder.file("model"), folder.file("imported"), &[]).unwrap();
    hawser::export_checkpoint(folder.file("imported"), folder.file("again"), ExportType::F32).unwrap();
    let weights = |name: &str| fs::read(folder.file(name).join("model.safetensors")).unwrap();
    assert_eq!(weights("model"), weights("again"));
    let config = Config::from_model(folder.file("model")).unwrap();
    let mut reader = Engine::new_inference(&config).unwrap();
    assert_eq!(reader.forward(&hawser::Batch::new(1, 2, &[7, 8])).unwrap().len(), 512);
    assert_eq!(reader.train_step().unwrap_err().code(), Code::FailedPrecondition);
    let name = folder.file("model/config.json");
    fs::write(&name, fs::read_to_string(&name).unwrap().replacen('{', "{\"surprise\": 1,", 1)).unwrap();
    let import =
        |keys: &[&str], to: &str| hawser::import_checkpoint(folder.file("model"), folder.file(to), keys);
    assert!(import(&[], "refused").unwrap_err().message().contains("surprise"));
    import(&["surprise"], "accepted").unwrap();
}

#[test]
fn a_dropped_operation_goes_on() {
    let folder = Folder::new();
    let mut engine = tiny::sourced();
    engine.train_step().unwrap();
    drop(engine.save_async(folder.file("step-1")).unwrap());
    drop(engine); // waits for the save
    hawser::verify_checkpoint(folder.file("step-1")).unwrap();
    let mut engine = tiny::sourced();
    fs::write(folder.file("file"), "").unwrap();
    let error = match engine.save_async(folder.file("file/step-1")) {
        Ok(operation) => thread::spawn(move || operation.wait()).join().unwrap().unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.code(), Code::NotFound, "{error:?}");
    assert!(error.message().contains("is not a folder"), "{error}");
}
