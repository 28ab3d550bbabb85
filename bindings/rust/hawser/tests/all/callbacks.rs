//! Tests that a callback's failure reaches the caller unchanged, and that the engine keeps working.

use std::ops::ControlFlow::{self, Break, Continue};
use std::panic::{catch_unwind, panic_any, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::{fmt, io};

use hawser::{Code, Engine, Error, GenerateRequest};
use serde_json::json;

use crate::tiny;

/// The program's own error type.
#[derive(Debug)]
enum Mine {
    Number(i32),
    Hawser(Error),
}

impl fmt::Display for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Mine {}

impl From<Error> for Mine {
    fn from(error: Error) -> Self {
        Self::Hawser(error)
    }
}

fn panic_of<T>(call: impl FnOnce() -> T) -> i32 {
    *catch_unwind(AssertUnwindSafe(call)).err().expect("no panic").downcast::<i32>().unwrap()
}

#[test]
fn errors_of_train_and_generate_are_returned_as_themselves() {
    let mut engine = tiny::sourced();
    let error = engine.try_train_with(Some(5), |record, _| match record.step {
        2 => Err(Mine::Number(41)),
        _ => Ok(Continue(())),
    });
    assert!(matches!(error, Err(Mine::Number(41))));
    assert_eq!(engine.progress().unwrap().step, 2);
    let request = GenerateRequest::new(&[1, 2], 5);
    let error = engine.try_generate_with(&request, |_| Err(Mine::Number(42)));
    assert!(matches!(error, Err(Mine::Number(42))));
    let error: Result<(), Mine> =
        engine.try_generate_with(&GenerateRequest::new(&[], 5), |_| Ok(Continue(())));
    assert!(matches!(error, Err(Mine::Hawser(error)) if error.code() == Code::InvalidArgument));
    engine.train(Some(5)).unwrap();
}

#[test]
fn panics_go_on_from_the_call() {
    let mut engine = tiny::sourced();
    assert_eq!(panic_of(|| engine.train_with(None, |_, _| panic_any(1))), 1);
    let request = GenerateRequest::new(&[1, 2], 5);
    assert_eq!(panic_of(|| engine.generate_with(&request, |_| panic_any(2))), 2);
    let nested = |_: &hawser::Record, running: &mut hawser::Running<'_>| {
        running.generate(&request).unwrap();
        panic_any(3)
    };
    assert_eq!(panic_of(|| engine.train_with(None, nested)), 3);
    engine.set_metrics(|_| panic_any(4)).unwrap();
    assert_eq!(panic_of(|| engine.train(None)), 4);
    assert_eq!(panic_of(|| engine.train_step()), 4);
    engine.clear_metrics().unwrap();
    engine.set_source(|_| panic_any(5)).unwrap();
    assert_eq!(panic_of(|| engine.train(None)), 5);
    assert_eq!(panic_of(|| engine.forward_backward()), 5);
    let at = engine.progress().unwrap().step;
    assert_eq!(at, 4, "the steps before each panic are whole");
    engine.clear_source().unwrap();
    engine.push(&tiny::Tokens::new(1).batch()).unwrap();
    engine.train_step().unwrap();
}

#[test]
fn errors_of_a_source_are_returned_as_themselves() {
    let mut engine = tiny::engine();
    engine.set_source(|_| Err(Error::other(Mine::Number(6)))).unwrap();
    for error in [engine.train(None).unwrap_err(), engine.train_step().unwrap_err()] {
        assert_eq!(error.code(), Code::Callback);
        assert!(std::error::Error::source(&error).is_some());
        assert!(matches!(*error.downcast::<Mine>().unwrap(), Mine::Number(6)));
    }
    engine.set_source(|_| Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())).unwrap();
    let error = engine.steps(None).unwrap().next().unwrap().unwrap_err();
    let error = error.downcast::<Mine>().unwrap_err();
    assert_eq!(error.downcast::<io::Error>().unwrap().kind(), io::ErrorKind::UnexpectedEof);
    engine.set_source(|_| Err(Error::new(Code::NotFound, "the shard is gone"))).unwrap();
    let error = engine.train(None).unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::NotFound, "the shard is gone"));
}

#[test]
fn a_source_with_wrong_tokens_is_refused_and_asked_again() {
    let mut engine = tiny::engine();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    engine
        .set_source(move |batch| {
            tiny::Tokens::new(1).copy_to(batch);
            if count.fetch_add(1, Ordering::Relaxed) == 0 {
                batch.tokens[17] = 61;
            }
            Ok(Continue(()))
        })
        .unwrap();
    let error = engine.train(Some(1)).unwrap_err();
    assert_eq!(error.code(), Code::DataInvalid);
    assert!(error.message().contains("61"), "{error}");
    engine.train(Some(1)).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(Arc::strong_count(&asked), 2);
    drop(engine);
    assert_eq!(Arc::strong_count(&asked), 1, "the source is dropped with its engine");
}

#[test]
fn an_interrupt_poll_ends_calls_of_its_thread() {
    let mut engine = tiny::sourced();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    hawser::set_thread_interrupt(move || count.fetch_add(1, Ordering::Relaxed) > 0).unwrap();
    assert_eq!(engine.train(Some(1_000_000)).unwrap_err().code(), Code::Cancelled);
    assert!(asked.load(Ordering::Relaxed) > 1);
    hawser::set_thread_interrupt(|| panic_any(7)).unwrap();
    assert_eq!(Arc::strong_count(&asked), 1, "another poll drops the first");
    let run = |_: &hawser::Record, _: &mut hawser::Running<'_>| -> ControlFlow<()> { Continue(()) };
    assert_eq!(panic_of(|| engine.train_with(Some(1_000_000), run)), 7);
    hawser::clear_thread_interrupt().unwrap();
    let next = engine.progress().unwrap().step + 1;
    engine.train(Some(next)).unwrap();
}

#[test]
fn progress_of_references() {
    let pairs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/bindings/pairs");
    let mut config = tiny::config();
    config.set("/objective/kind", "dpo").unwrap();
    config.set("/data", json!({"format": "prepared", "path": pairs})).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = seen.clone();
    hawser::set_thread_progress(move |now| {
        list.lock().unwrap().push(now.clone());
        Continue(())
    })
    .unwrap();
    drop(Engine::new(&config).unwrap());
    assert_eq!(
        seen.lock().unwrap().last().unwrap(),
        &json!({"phase": "references", "done": 24, "total": 24})
    );
    hawser::set_thread_progress(|_| Break(())).unwrap();
    assert_eq!(Engine::new(&config).err().unwrap().code(), Code::Cancelled);
    hawser::set_thread_progress(|_| panic_any(7)).unwrap();
    assert_eq!(panic_of(|| Engine::new(&config)), 7);
    hawser::clear_thread_progress().unwrap();
    drop(Engine::new(&config).unwrap());
    assert_eq!(Arc::strong_count(&seen), 1, "another callback drops the first");
}

#[test]
fn an_interrupt_poll_that_takes_itself_away_lives_until_it_returns() {
    let mut engine = tiny::sourced();
    let kept = Arc::new(AtomicUsize::new(0));
    let count = kept.clone();
    let ask = move || {
        hawser::clear_thread_interrupt().unwrap();
        assert_eq!(Arc::strong_count(&count), 2);
        count.fetch_add(1, Ordering::Relaxed);
        true
    };
    hawser::set_thread_interrupt(ask).unwrap();
    assert_eq!(engine.train(Some(1_000_000)).unwrap_err().code(), Code::Cancelled);
    assert_eq!((kept.load(Ordering::Relaxed), Arc::strong_count(&kept)), (1, 1));
}
