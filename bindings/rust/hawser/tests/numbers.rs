//! Measures the overhead of the crate: the numbers of tests/bench/results/2026-11-bindings.md.
//!   cargo test --release --test numbers -- --ignored --nocapture

use std::hint::black_box;
use std::mem::{size_of, zeroed};
use std::ptr;
use std::time::Instant;

use hawser::{Config, Engine, TensorKind};
use hawser_sys as sys;
use serde_json::json;

#[path = "all/tiny.rs"]
#[allow(dead_code)]
mod tiny;

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn timed<T>(call: impl FnOnce() -> T) -> f64 {
    let begin = Instant::now();
    black_box(call());
    begin.elapsed().as_secs_f64()
}

/// Runs a push and a step with only the C API.
unsafe fn step_of_c(engine: *mut sys::hws_engine, tokens: &tiny::Tokens) {
    unsafe {
        let mut batch: sys::hws_batch = zeroed();
        batch.struct_size = size_of::<sys::hws_batch>() as u32;
        (batch.rows, batch.cols) = (tiny::ROWS as i64, tiny::COLS as i64);
        (batch.tokens, batch.targets) = (tokens.tokens.as_ptr(), tokens.targets.as_ptr());
        let mut result: sys::hws_step_result = zeroed();
        result.struct_size = size_of::<sys::hws_step_result>() as u32;
        assert_eq!(sys::hws_data_push(engine, &batch), 0);
        assert_eq!(sys::hws_engine_train_step(engine, &mut result), 0);
    }
}

fn toy() -> String {
    json!({"cpu": {"threads": 1}, "batch": {"micro_batch": 4}, "train": {"steps": 1_000_000},
           "model": {"vocab_size": tiny::VOCABULARY, "context": tiny::COLS, "layers": 1, "width": 16, "heads": 2}})
    .to_string()
}

#[test]
#[ignore = "a measurement"]
fn a_step_costs_what_it_costs_in_c() {
    let text = toy();
    let mut engine = Engine::new(&Config::parse(&text).unwrap()).unwrap();
    let (mut config, mut of_c) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the calls meet the requirements of hawser.h.
    unsafe {
        assert_eq!(
            sys::hws_config_parse(text.as_ptr().cast(), text.len(), sys::HWS_FORMAT_JSON, &mut config),
            0
        );
        assert_eq!(sys::hws_engine_create(config, 0, &mut of_c), 0);
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for number in 0..20_000 {
        let tokens = tiny::Tokens::new(number);
        ours.push(timed(|| {
            engine.push(&tokens.batch()).unwrap();
            engine.train_step().unwrap()
        }));
        theirs.push(timed(|| unsafe { step_of_c(of_c, &tokens) }));
    }
    unsafe {
        sys::hws_engine_destroy(of_c);
        sys::hws_config_destroy(config);
    }
    let (ours, theirs) = (median(ours) * 1e6, median(theirs) * 1e6);
    println!("push and step: Rust {ours:.2} us, C {theirs:.2} us, more by {:.2} us", ours - theirs);
    assert!(ours - theirs < 30.0);
}

#[test]
#[ignore = "a measurement"]
fn a_view_is_free_and_a_copy_is_a_memcpy() {
    let config = Config::from_value(&json!({
        "model": {"vocab_size": 65536, "context": 16, "layers": 1, "width": 256, "heads": 4}
    }));
    let engine = Engine::new_inference(&config.unwrap()).unwrap();
    let parameters = engine.parameters().unwrap();
    let largest = parameters.iter().max_by_key(|parameter| parameter.count).unwrap();
    let mut copy = vec![0.0_f32; largest.count];
    let [mut views, mut copies, mut memcpys] = [const { Vec::new() }; 3];
    let source = engine.view::<f32>(TensorKind::Weight, &largest.name).unwrap();
    for _ in 0..51 {
        views.push(timed(|| engine.view::<f32>(TensorKind::Weight, &largest.name).unwrap().len()));
        memcpys.push(timed(|| copy.copy_from_slice(black_box(&source))));
        copies.push(timed(|| engine.read_tensor(TensorKind::Weight, &largest.name, &mut copy).unwrap()));
    }
    let (view, memcpy, read) = (median(views), median(memcpys), median(copies));
    let mib = (largest.count * 4) as f64 / (1 << 20) as f64;
    println!(
        "{mib} MiB: view {:.1} us, copy {:.1} ms, memcpy {:.1} ms",
        view * 1e6,
        read * 1e3,
        memcpy * 1e3
    );
    println!("a copy runs at {:.0} % of memcpy's rate", 100.0 * memcpy / read);
}
