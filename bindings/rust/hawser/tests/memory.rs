//! Tests that engines, their callbacks and failing calls leak no memory. The test is a program of its own,
//! because it measures the memory of the process. HAWSER_ENGINES is the number of engines (default: 200).

use std::ops::ControlFlow::Continue;
use std::{env, fs};

use hawser::{Config, LoadData, TensorKind};

#[path = "all/tiny.rs"]
#[allow(dead_code)]
mod tiny;

fn resident_kib() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn use_one(number: u32) {
    let mut engine = tiny::engine();
    let data = vec![1_u8; 1 << 16];
    engine.set_metrics(move |_| _ = data[0]).unwrap();
    let source = vec![1_i32; 1 << 14];
    engine
        .set_source(move |batch| {
            batch.tokens.fill(source[0]);
            batch.targets.fill(source[1]);
            Ok(Continue(()))
        })
        .unwrap();
    engine.push(&tiny::Tokens::new(number).batch()).unwrap();
    engine.train_with(Some(2), |_, _| Continue(())).unwrap();
    assert_eq!(engine.view::<f32>(TensorKind::Weight, "final_norm.weight").unwrap().len(), 32);
    engine.metrics().unwrap();
}

fn fail_once(long: &str) {
    assert!(Config::parse(long).is_err());
    assert!(Config::preset(long).is_err());
    assert!(tiny::config().set("/init/from", 5).is_err());
    assert!(hawser::verify_checkpoint(long).is_err());
}

#[test]
fn nothing_is_left_behind() {
    let engines = env::var("HAWSER_ENGINES").map_or(200, |number| number.parse().unwrap());
    (0..50).for_each(use_one);
    let before = resident_kib();
    (0..engines).for_each(use_one);
    let grown = resident_kib() - before;
    println!("{engines} engines: {grown} KiB");
    assert!(grown < 1024, "{engines} engines left {grown} KiB");

    let long = "x".repeat(100 << 10);
    let mut engine = tiny::engine();
    let mut fail = || {
        fail_once(&long);
        assert!(engine.load(&long, LoadData::Same).is_err());
    };
    (0..100).for_each(|_| fail());
    let before = resident_kib();
    (0..400).for_each(|_| fail()); // five failing calls each
    let grown = resident_kib() - before;
    println!("2000 failing calls: {grown} KiB");
    assert!(grown < 10 << 10, "2,000 failing calls left {grown} KiB");
}
