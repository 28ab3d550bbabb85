//! Tests ranks as threads, as processes over TCP, and over a transport in Rust.

use std::net::TcpListener;
use std::ops::ControlFlow::Continue;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use hawser::{Address, Code, Comm, Config, Engine, Error, Result, Secret, Transport};
use serde_json::json;

use crate::tiny::{self, Tokens};

fn two_ranks() -> Config {
    let mut config = tiny::config();
    config.set("/mesh", json!({"dp_shard": 2})).unwrap();
    config.set("/zero/stage", 2).unwrap().set("/batch/grad_accum_steps", 1).unwrap();
    config.set("/cpu/threads", 1).unwrap();
    config
}

fn losses(comm: &Comm) -> Result<Vec<u64>> {
    let mut engine = Engine::with_comm(&two_ranks(), comm)?;
    engine.set_source(|batch| {
        Tokens::new(batch.step as u32).copy_to(batch);
        Ok(Continue(()))
    })?;
    let losses = engine.steps(Some(4))?.map(|step| step.map(|step| step.loss.to_bits())).collect();
    losses
}

/// Runs two ranks as threads and returns their results.
fn both<T: Send>(rank: impl Fn(u16) -> T + Sync) -> [T; 2] {
    thread::scope(|scope| {
        let other = scope.spawn(|| rank(1));
        [rank(0), other.join().unwrap()]
    })
}

/// A transport between two ranks of one process, over channels.
struct Channels {
    to: Mutex<Sender<Vec<u8>>>,
    from: Mutex<Receiver<Vec<u8>>>,
    alive: Arc<()>,
}

impl Transport for Channels {
    const EXCHANGES: bool = true;

    fn send(&self, _: u16, data: &[u8], _: Duration) -> Result<()> {
        let sent = self.to.lock().unwrap().send(data.to_vec());
        sent.map_err(|_| Error::new(Code::Unavailable, "the other end of the channel is gone"))
    }

    fn receive(&self, _: u16, data: &mut [u8], timeout: Duration) -> Result<()> {
        let received = self.from.lock().unwrap().recv_timeout(timeout);
        data.copy_from_slice(&received.map_err(|error| match error {
            RecvTimeoutError::Timeout => Error::new(Code::Timeout, "nothing came through the channel"),
            RecvTimeoutError::Disconnected => Error::new(Code::Unavailable, "the channel is closed"),
        })?);
        Ok(())
    }
}

#[test]
fn threads_processes_and_a_transport_give_the_same_losses() {
    let local = losses(&Comm::local(2).unwrap()).unwrap();

    for without_shared_memory in [false, true] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let joined = both(|rank| {
            let comm = Comm::join(&Address {
                rank,
                world_size: 2,
                address: format!("127.0.0.1:{port}"),
                job: "rust".into(),
                without_shared_memory,
                ..Default::default()
            });
            losses(&comm.unwrap()).unwrap()
        });
        assert_eq!(joined, [local.clone(), local.clone()]);
    }

    let (ends, alive) = (Mutex::new([None, None]), Arc::new(()));
    let (to_one, of_one) = channel();
    let (to_zero, of_zero) = channel();
    let end = |to, from| Some(Channels { to: Mutex::new(to), from: Mutex::new(from), alive: alive.clone() });
    *ends.lock().unwrap() = [end(to_one, of_zero), end(to_zero, of_one)];
    let hosted = both(|rank| {
        let transport = ends.lock().unwrap()[usize::from(rank)].take().unwrap();
        assert!(Arc::strong_count(&transport.alive) > 1);
        let comm = Comm::host(transport, rank, 2).unwrap();
        assert_eq!(comm.info().unwrap()["kind"], "host");
        losses(&comm).unwrap()
    });
    assert_eq!(hosted, [local.clone(), local]);
    assert_eq!(Arc::strong_count(&alive), 1, "transports are dropped with their comms");
}

/// A transport that fails, or panics.
struct Broken(bool);

impl Transport for Broken {
    fn send(&self, _: u16, _: &[u8], _: Duration) -> Result<()> {
        assert!(!self.0, "the cable is cut");
        Err(Error::new(Code::Io, "the cable\0 is unplugged"))
    }

    fn receive(&self, from: u16, _: &mut [u8], timeout: Duration) -> Result<()> {
        self.send(from, &[], timeout)
    }
}

#[test]
fn a_broken_transport_says_why() {
    for (panics, code, text) in
        [(false, Code::Io, "the cable  is unplugged"), (true, Code::Unavailable, "the cable is cut")]
    {
        let error = losses(&Comm::host(Broken(panics), 0, 2).unwrap()).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(text), "{error}");
    }
    assert_eq!(Comm::host(Broken(false), 2, 2).map(|_| ()).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn addresses_are_checked() {
    let joined = |address| Comm::join(&address).map(|_| ()).unwrap_err();
    let alone = || Address { world_size: 1, address: "127.0.0.1:0".into(), ..Default::default() };
    assert_eq!(joined(Address { address: "nonsense".into(), ..alone() }).code(), Code::InvalidArgument);
    assert_eq!(joined(Address { job: "a\0b".into(), ..alone() }).code(), Code::InvalidArgument);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let timeout = Some(Duration::from_millis(300));
    let late = joined(Address { world_size: 2, address: address.clone(), timeout, ..alone() });
    assert_eq!(late.code(), Code::Timeout, "{late}");
    for secret in [vec![1; 31], vec![1; 5000]] {
        let secret = Some(Secret::Bytes(secret));
        let refused = joined(Address { world_size: 2, address: address.clone(), secret, timeout, ..alone() });
        assert!(
            matches!(refused.code(), Code::InvalidArgument | Code::Callback | Code::Unavailable),
            "{refused:?}"
        );
    }
    let secret = Some(Secret::File("/nowhere/secret".into()));
    let refused = joined(Address { world_size: 2, address, secret, timeout, ..alone() });
    assert_eq!(refused.code(), Code::NotFound, "{refused:?}");
    assert_eq!(format!("{:?}", Secret::Bytes(b"do not print".to_vec())), "Bytes(..)");
}

#[test]
fn the_environment_is_read_where_a_launcher_is() {
    assert_eq!(Comm::read_env().unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(Comm::from_env().map(|_| ()).unwrap_err().code(), Code::FailedPrecondition);
    let overrides = Address { job: "again".into(), ..Default::default() };
    assert_eq!(Comm::from_env_with(&overrides).map(|_| ()).unwrap_err().code(), Code::FailedPrecondition);
}
