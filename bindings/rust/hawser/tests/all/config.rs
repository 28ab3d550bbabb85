//! Tests configs, presets, proofs and devices.

use std::time::Duration;

use hawser::{Code, Config, Plan};
use serde_json::json;

use crate::tiny;

#[test]
fn configs_come_from_json_values_presets_and_bytes() {
    let config = tiny::config();
    let text = config.to_json().unwrap();
    assert_eq!(Config::parse(&text).unwrap().to_json().unwrap(), text);
    assert_eq!(Config::from_binary(&config.to_binary().unwrap()).unwrap().to_json().unwrap(), text);
    let names = Config::presets().unwrap();
    assert!(names.contains(&"quickstart".to_owned()));
    for name in names {
        assert!(Config::preset(&name).unwrap().resolved().unwrap()["model"]["layers"].as_u64().unwrap() > 0);
    }
    assert_eq!(Config::preset("nothing").map(|_| ()).unwrap_err().code(), Code::NotFound);
    assert!(Config::schema().unwrap()["properties"].is_object());
}

#[test]
fn fields_are_set_one_by_one_and_copies_are_apart() {
    let mut config = tiny::config();
    let copy = config.try_clone().unwrap();
    config.set("/train/steps", 3).unwrap().set("/precision", "bf16").unwrap();
    assert_eq!(config.resolved().unwrap()["train"]["steps"], 3);
    assert_eq!(copy.resolved().unwrap()["train"]["steps"], 8);
    let error = config.set("/train/stepps", 3).map(|_| ()).unwrap_err();
    assert_eq!((error.code(), error.pointer()), (Code::ConfigInvalid, Some("/train/stepps")));
    assert_eq!(config.explain("/train/steps").unwrap()["origin"], "set");
}

#[test]
fn problems_are_told_all_at_once() {
    let mut config = tiny::config();
    assert_eq!(config.validate().unwrap(), []);
    config.set("/optimizer/learning_rate", -1).unwrap().set("/model/heads", 5).unwrap();
    let problems = config.validate().unwrap();
    assert!(problems.iter().any(|problem| problem.pointer == "/optimizer/learning_rate"), "{problems:?}");
    assert!(problems.len() >= 2 && problems.iter().all(|problem| !problem.message.is_empty()));
    let error = hawser::Engine::new(&config).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Code::ConfigInvalid);
    assert!(error.details()["problems"].as_array().unwrap().len() >= 2);
}

#[test]
fn layouts_are_proven_and_fitted() {
    let mut config = tiny::config();
    config.set("/mesh", json!({"dp_shard": 2})).unwrap().set("/zero/stage", 2).unwrap();
    let proof = config.prove(2).unwrap();
    assert!(proof.equal && proof.first_difference.is_none());
    assert_eq!((proof.ranks, proof.steps), (2, 2));
    assert_eq!(Plan::new(&config).unwrap().report().unwrap().ranks, 2);
    let alone = config.fit_ranks(1).unwrap();
    assert_eq!(Plan::new(&alone).unwrap().report().unwrap().ranks, 1);
    let there = Plan::new_on(&alone, "h100-80", 1e9, 1.0).unwrap();
    assert!(there.report().unwrap().others["foretold"]["run"]["days"].as_f64().unwrap() > 0.0);
    assert!(there.text().unwrap().contains("MFU"));
    assert_eq!(there.trace().unwrap()["otherData"]["predicted"], true);
    assert!(there.trace_svg().unwrap().starts_with("<svg "));
    assert_eq!(Plan::new(&alone).unwrap().trace().unwrap_err().code(), Code::FailedPrecondition);
    let found = Plan::search(&alone, "h100-80", 1, 2, 1.0).unwrap();
    assert!(found.text().unwrap().contains("layouts were considered"));
    assert_eq!(Plan::new_on(&alone, "h100", 0.0, 1.0).err().unwrap().code(), Code::NotFound);
    assert_eq!(config.fit_ranks(3).map(|_| ()).unwrap_err().code(), Code::ConfigInvalid);
}

#[test]
fn devices_are_listed_and_measured() {
    assert_eq!(hawser::devices().unwrap()[0]["kind"], "cpu");
    assert!(hawser::measure_cpu(1, Duration::from_millis(20)).unwrap().is_object());
    assert!(hawser::peak_flops(1, "fp32", Duration::from_millis(10)).unwrap() > 1e8);
    let error = hawser::peak_flops(1, "int1", Duration::from_millis(10)).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}
