//! Tests steps, runs, data, tensors and reports.

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;
use std::{f32, f64, thread};

use hawser::{Bf16, Code, Engine, GenerateRequest, Outcome, Phase, Plan, TensorKind, Tokenizer, Trace};
use serde_json::json;

use crate::tiny::{self, Tokens, COLS, ROWS, VOCABULARY};

fn bits(losses: &[f64]) -> Vec<u64> {
    losses.iter().map(|loss| loss.to_bits()).collect()
}

#[test]
fn every_way_to_train_gives_the_same_losses() {
    let mut pushed = Vec::new();
    let mut engine = tiny::engine();
    for number in 1..=6 {
        engine.push(&Tokens::new(number).batch()).unwrap();
        pushed.push(engine.train_step().unwrap().loss);
    }
    let stepped: Vec<f64> = tiny::sourced().steps(Some(6)).unwrap().map(|step| step.unwrap().loss).collect();
    let mut trained = Vec::new();
    tiny::sourced()
        .train_with(Some(6), |record, _| {
            trained.push(record.loss);
            Continue(())
        })
        .unwrap();
    let mut halves = Vec::new();
    let mut engine = tiny::sourced();
    for _ in 0..6 {
        assert_eq!(engine.forward_backward().unwrap().outcome, Outcome::Pending);
        engine.discard_and_rewind().unwrap(); // the next step uses the same batch again
        engine.forward_backward().unwrap();
        let step = engine.commit().unwrap();
        assert_eq!(step.outcome, Outcome::Accepted);
        halves.push(step.loss);
    }
    assert!(pushed[5] < pushed[0]);
    for other in [stepped, trained, halves] {
        assert_eq!(bits(&pushed), bits(&other));
    }
}

#[test]
fn a_callback_pushes_evaluates_generates_and_saves() {
    let folder = tiny::Folder::new();
    let mut engine = tiny::engine();
    engine.push(&Tokens::new(1).batch()).unwrap();
    engine
        .try_train_with(Some(4), |record, running| -> hawser::Result<_> {
            running.push(&Tokens::new(record.step as u32 + 1).batch())?;
            assert!(running.evaluate_batch(&Tokens::new(1).batch())?.loss.is_finite());
            assert_eq!(running.evaluate(None).unwrap_err().code(), Code::FailedPrecondition);
            assert_eq!(running.forward(&Tokens::new(1).batch())?.len(), ROWS * COLS * VOCABULARY as usize);
            assert_eq!(running.generate(&GenerateRequest::new(&[1, 2], 3))?.len(), 3);
            assert_eq!(running.engine().progress()?.step, record.step);
            match record.step {
                1 => running.save(folder.file("whole"))?,
                2 => running.save_async(folder.file("beside"))?.wait()?,
                _ => {}
            }
            Ok(Continue(()))
        })
        .unwrap();
    for name in ["whole", "beside"] {
        hawser::verify_checkpoint(folder.file(name)).unwrap();
    }
}

#[test]
fn an_objective_hands_in_its_gradients() {
    let mut engine = tiny::engine();
    let tokens = Tokens::new(1);
    engine.push(&tokens.batch()).unwrap();
    let known = engine.forward_backward().unwrap();
    engine.discard_and_rewind().unwrap();
    let each = -(1.0 / known.tokens as f64) as f32;
    let gradients: Vec<f32> =
        tokens.targets.iter().map(|&target| if target < 0 { 0.0 } else { each }).collect();
    let own = engine.backward_with(&tokens.batch(), &gradients).unwrap();
    assert_eq!(own.grad_norm, known.grad_norm);
    assert!((own.loss - known.loss).abs() < 1e-6);
    assert_eq!(engine.commit().unwrap().step, 1);
    let error = engine.backward_with(&tokens.batch(), &gradients[1..]).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[test]
fn weights_scale_the_loss_of_their_targets() {
    let mut engine = tiny::engine();
    let tokens = Tokens::new(1);
    let halves = vec![0.5; tokens.tokens.len()];
    let half = engine.evaluate_batch(&tokens.batch()).unwrap().loss / 2.0;
    let weighted = tokens.batch().with_weights(&halves);
    assert_eq!(engine.evaluate_batch(&weighted).unwrap().loss, half);
    engine.push(&weighted).unwrap();
    assert_eq!(engine.forward_backward().unwrap().loss, half);
    engine.discard_and_rewind().unwrap();
    engine
        .set_source(|batch| {
            Tokens::new(1).copy_to(batch);
            batch.weights().fill(0.5);
            Ok(Continue(()))
        })
        .unwrap();
    assert_eq!(engine.train_step().unwrap().loss, half);
    assert_eq!(
        engine.push(&tokens.batch().with_weights(&halves[1..])).unwrap_err().code(),
        Code::InvalidArgument
    );
}

#[test]
fn break_ends_a_run_and_the_end_of_data_ends_steps() {
    let mut engine = tiny::engine();
    engine
        .set_source(|batch| {
            Tokens::new(batch.step as u32).copy_to(batch);
            batch.document_begin().fill(0);
            Ok(if batch.step > 5 { Break(()) } else { Continue(()) })
        })
        .unwrap();
    engine.train_with(None, |record, _| if record.step == 2 { Break(()) } else { Continue(()) }).unwrap();
    assert_eq!(engine.progress().unwrap().step, 2);
    assert_eq!(engine.steps(None).unwrap().count(), 3);
    assert_eq!(engine.train_step().unwrap_err().code(), Code::OutOfRange);
    engine.clear_source().unwrap();
    assert_eq!(engine.train_step().unwrap_err().code(), Code::FailedPrecondition);
    let mut steps = engine.steps(Some(7)).unwrap();
    for number in 6..8 {
        steps.engine().push(&Tokens::new(number).batch()).unwrap();
        assert_eq!(steps.next().unwrap().unwrap().step, u64::from(number));
    }
    assert!(steps.next().is_none());
}

#[test]
fn progress_is_typed() {
    let mut engine = tiny::sourced();
    let before = engine.progress().unwrap();
    assert_eq!((before.phase, before.step, before.loss, before.until_step), (Phase::Idle, 0, None, None));
    let step = engine.train_step().unwrap();
    let after = engine.progress().unwrap();
    assert_eq!((after.step, after.loss, after.total_steps), (1, Some(step.loss), 8));
    assert_eq!(engine.metrics().unwrap()["step"], 1);
    assert_eq!(serde_json::to_value(step).unwrap()["outcome"], "accepted");
    let monitor = engine.monitor();
    let mut seen = Vec::new();
    engine
        .train_with(Some(3), |_, _| {
            let now = thread::spawn(move || monitor.progress().unwrap()).join().unwrap();
            seen.push((now.phase, now.step, now.until_step));
            Continue(())
        })
        .unwrap();
    assert_eq!(seen, [(Phase::Train, 2, Some(3)), (Phase::Train, 3, Some(3))]);
}

#[test]
fn a_monitor_cancels_from_another_thread_and_outlives_the_engine() {
    let mut engine = tiny::sourced();
    let monitor = engine.monitor();
    let watcher = thread::spawn(move || {
        while monitor.progress().unwrap().step < 3 {
            thread::sleep(Duration::from_millis(1));
            monitor.metrics().unwrap();
        }
        monitor.cancel();
    });
    let error = engine.train(Some(1_000_000)).unwrap_err();
    watcher.join().unwrap();
    assert_eq!(error.code(), Code::Cancelled);
    assert!(monitor.flight().unwrap()["ranks"].is_array());
    monitor.flight_text().unwrap();
    engine.train_step().unwrap();
    drop(engine);
    assert_eq!(monitor.progress().unwrap_err().code(), Code::BadHandle);
    assert_eq!(monitor.metrics().unwrap_err().code(), Code::BadHandle);
    monitor.cancel();
}

#[test]
fn const_functions_run_beside_each_other() {
    fn shared<T: Send + Sync>() {}
    shared::<Engine>();
    shared::<hawser::Config>();
    shared::<hawser::Comm>();
    shared::<hawser::Operation>();
    shared::<hawser::Error>();
    let engine = &tiny::engine();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                for _ in 0..50 {
                    assert!(engine.info().unwrap()["parameters"].as_u64().unwrap() > 10_000);
                    engine.tensor(TensorKind::Weight, "final_norm.weight").unwrap();
                }
            });
        }
    });
}

#[test]
fn forward_and_evaluate_agree() {
    let mut engine = tiny::engine();
    let tokens = Tokens::new(3);
    let logits = engine.forward(&tokens.batch()).unwrap();
    let (mut sum, mut count) = (0.0, 0);
    for (row, &target) in logits.chunks(VOCABULARY as usize).zip(&tokens.targets) {
        if target >= 0 {
            let total: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            sum += total.ln() - f64::from(row[target as usize]);
            count += 1;
        }
    }
    let evaluation = engine.evaluate_batch(&tokens.batch()).unwrap();
    assert_eq!(evaluation.tokens, count);
    assert!((evaluation.loss - sum / count as f64).abs() < 1e-4, "{evaluation:?} {}", sum / count as f64);
    let logprobs = engine.logprobs(&tokens.batch()).unwrap();
    assert_eq!(logprobs.len(), tokens.targets.len());
    let sum: f64 = logprobs.iter().map(|&logprob| f64::from(logprob)).sum();
    assert!((evaluation.loss + sum / count as f64).abs() < 1e-6);
    let top = engine.sizes().unwrap().vocab_size;
    let (ids, likeliest) = engine.top_logprobs(&tokens.batch(), top).unwrap();
    for (i, &target) in tokens.targets.iter().enumerate().filter(|(_, &target)| target >= 0) {
        let row = i * top..(i + 1) * top;
        let at = ids[row.clone()].iter().position(|&id| id == target).unwrap();
        assert!((likeliest[row][at] - logprobs[i]).abs() < 1e-5);
    }
    let taught = tokens.batch().with_teacher(top, &ids, &likeliest);
    assert_eq!(engine.push(&taught).unwrap_err().code(), Code::InvalidArgument, "the config has no teacher");
    let mut short = vec![0.0; 5];
    let error = engine.forward_into(&tokens.batch(), &mut short).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[test]
fn tokenizers_are_learned_read_and_write() {
    let folder = tiny::Folder::new();
    let (text, own) = (folder.file("words.txt"), folder.file("own.json"));
    std::fs::write(&text, "the rope pulls the ship and the ship pulls the rope\n".repeat(50)).unwrap();
    match Tokenizer::train(&[&text], 270, &["<|end|>"], &own) {
        Err(error) if error.code() == Code::Unavailable => return println!("skipped: {error}"),
        trained => trained.unwrap(),
    }
    let tokenizer = Tokenizer::open(&own).unwrap();
    let tokens = tokenizer.encode("grün the<|end|>", false).unwrap();
    assert_eq!(tokenizer.decode(&tokens).unwrap(), "grün the<|end|>");
    assert_eq!(tokenizer.decode_whole(&tokens).unwrap(), "grün the");
    assert_eq!(tokenizer.decode_whole(&tokens[..3]).unwrap(), "gr");
    assert!(!tokenizer.info().unwrap().chat_template);
    let error = tokenizer.render(&serde_json::json!({"messages": []})).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert_eq!(tiny::engine().tokenizer().map(|_| ()).unwrap_err().code(), Code::FailedPrecondition);
}

#[test]
fn text_goes_both_ways() {
    let folder = tiny::Folder::new();
    let mut engine = Engine::new(&tiny::text_config(&folder)).unwrap();
    engine.train(None).unwrap();
    assert!(engine.evaluate(Some(1)).unwrap().loss < 6.0);
    let text = "grün, 😀";
    let tokens = engine.encode(text).unwrap();
    assert_eq!(tokens.len(), text.len());
    assert_eq!(engine.decode(&tokens).unwrap(), text);
    assert_eq!(engine.data_info().unwrap()["vocabulary"]["kind"], "bytes");
    let sampled = GenerateRequest {
        temperature: 1.0,
        top_k: Some(5),
        top_p: 0.9,
        seed: 3,
        ..GenerateRequest::new(&tokens, 6)
    };
    assert_eq!(engine.generate(&sampled).unwrap(), engine.generate(&sampled).unwrap());
    let all = engine.generate(&GenerateRequest::new(&tokens, 6)).unwrap();
    let stop = GenerateRequest { stop_tokens: &[999, all[0]], ..GenerateRequest::new(&tokens, 6) };
    assert_eq!(engine.generate(&stop).unwrap(), all[..1]);
    let stop = GenerateRequest { stop_token: Some(all[0]), ..GenerateRequest::new(&tokens, 6) };
    assert_eq!(engine.generate(&stop).unwrap(), all[..1]);
    let mut first = Vec::new();
    engine
        .generate_with(&GenerateRequest::new(&tokens, 6), |token| {
            first.push(token);
            if first.len() == 2 {
                Break(())
            } else {
                Continue(())
            }
        })
        .unwrap();
    assert_eq!(first, all[..2]);
}

#[test]
fn tensors_are_copied_set_and_viewed() {
    let mut engine = tiny::sourced();
    let parameters = engine.parameters().unwrap();
    let last = parameters.iter().find(|parameter| parameter.name == "final_norm.weight").unwrap();
    assert_eq!(last.shape, [32]);
    let values: Vec<f32> = (0..32u8).map(f32::from).collect();
    engine.set_tensor(TensorKind::Weight, &last.name, &values).unwrap();
    assert_eq!(engine.tensor(TensorKind::Weight, &last.name).unwrap(), values);
    let view = engine.view::<f32>(TensorKind::Weight, &last.name).unwrap();
    assert_eq!((&view[..], view.shape()), (&values[..], vec![32]));
    drop(view);
    engine.forward_backward().unwrap();
    assert!(engine.tensor(TensorKind::Gradient, &last.name).unwrap().iter().any(|&value| value != 0.0));
    assert_eq!(engine.gradient_statistics().unwrap().len(), parameters.len());
    engine.discard().unwrap();
    assert_eq!(engine.tensor(TensorKind::Gradient, &last.name).unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(engine.tensor(TensorKind::Moment1, &last.name).unwrap(), [0.0; 32]);
    assert_eq!(engine.tensor(TensorKind::Moment2, "none").unwrap_err().code(), Code::NotFound);
}

#[test]
fn views_have_types() {
    let mut config = tiny::config();
    config.set("/precision", "bf16_pure").unwrap();
    let engine = Engine::new(&config).unwrap();
    let error = engine.view::<f32>(TensorKind::Weight, "final_norm.weight").unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.to_string().contains("stored as Bf16, not f32"), "{error}");
    let view = engine.view::<Bf16>(TensorKind::Weight, "final_norm.weight").unwrap();
    assert!(view.iter().all(|&value| f32::from(value) == 1.0));
}

#[test]
fn plans_traces_and_profiles() {
    let plan = Plan::new(&tiny::config()).unwrap();
    let report = plan.report().unwrap();
    assert!(report.total_bytes > 4 * report.parameters && report.others.contains_key("instructions"));
    assert!(plan.text().unwrap().contains('\n'));
    let mut engine = tiny::sourced();
    assert_eq!(engine.trace().unwrap_err().code(), Code::FailedPrecondition);
    engine.set_trace(Trace::Kernels).unwrap();
    engine.train(Some(3)).unwrap();
    assert!(!engine.trace().unwrap()["traceEvents"].as_array().unwrap().is_empty());
    assert!(!engine.profile().unwrap()["ranks"][0]["kernels"].as_array().unwrap().is_empty());
    assert!(!engine.trace_text().unwrap().is_empty() && !engine.profile_text().unwrap().is_empty());
    assert!(engine.learning_rate().unwrap() > 0.0);
    assert_eq!(engine.sizes().unwrap().global_batch, ROWS);
}

#[test]
fn metrics_come_after_each_step() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut engine = tiny::sourced();
    engine.set_metrics(move |json| sender.send(json.to_owned()).unwrap()).unwrap();
    engine.train(Some(2)).unwrap();
    engine.clear_metrics().unwrap(); // drops the closure and with it the sender
    let steps: Vec<serde_json::Value> = receiver
        .iter()
        .map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap()["step"].clone())
        .collect();
    assert_eq!(steps, [json!(1), json!(2)]);
}
