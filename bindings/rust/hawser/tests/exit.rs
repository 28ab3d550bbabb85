//! Tests that a program may end while a thread trains, and may drop an engine while other threads watch it.

use std::ops::ControlFlow::Continue;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{env, thread};

use hawser::Code;

#[path = "all/tiny.rs"]
#[allow(dead_code)]
mod tiny;

const CHILD: &str = "HAWSER_TEST_EXIT";

/// Starts this program again, to run `child`.
fn ends_with_zero(how: &str) {
    let program = env::current_exe().unwrap();
    let child =
        Command::new(program).args(["child", "--exact", "--nocapture"]).env(CHILD, how).output().unwrap();
    assert!(child.status.success(), "{:?}: {}", child.status, String::from_utf8_lossy(&child.stderr));
}

/// Runs in the started program; does nothing in the test program itself.
#[test]
fn child() {
    let Ok(how) = env::var(CHILD) else { return };
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut engine = tiny::sourced();
        engine.train_with(Some(u64::MAX >> 1), |record, _| {
            if record.step == 3 {
                sender.send(()).unwrap();
            }
            Continue(())
        })
    });
    receiver.recv().unwrap();
    if how == "exit" {
        std::process::exit(0);
    } // otherwise the main thread returns
}

#[test]
fn programs_end_beside_a_running_train() {
    for _ in 0..10 {
        ends_with_zero("exit");
        ends_with_zero("return");
    }
}

#[test]
fn monitors_watch_while_engines_come_and_go() {
    let (sender, receiver) = channel::<hawser::Monitor>();
    let watcher = thread::spawn(move || {
        for monitor in receiver {
            loop {
                match monitor.progress() {
                    Ok(progress) if progress.step > 2 => monitor.cancel(),
                    Ok(_) => {}
                    Err(error) => break assert_eq!(error.code(), Code::BadHandle),
                }
                _ = monitor.metrics();
                _ = monitor.flight();
            }
        }
    });
    for _ in 0..20 {
        let mut engine = tiny::sourced();
        sender.send(engine.monitor()).unwrap();
        assert_eq!(engine.train(Some(10_000_000)).unwrap_err().code(), Code::Cancelled);
        thread::sleep(Duration::from_millis(1));
    }
    drop(sender);
    watcher.join().unwrap();
}
