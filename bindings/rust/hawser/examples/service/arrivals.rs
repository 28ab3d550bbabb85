//! Arrivals: deadlines for requests to arrive. Without them, a client that sends nothing, or only a byte now
//! and then, could keep a connection indefinitely.
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, Sleep};

/// Further connections are closed at once.
const MOST_HALF_REQUESTS: usize = 64;
/// The time from the first byte of a request to its last.
const TIME_FOR_A_REQUEST: Duration = Duration::from_secs(10);

/// True once the request of a connection has arrived. Handlers with slow responses call is_done() before they
/// respond.
#[derive(Clone)]
pub struct Arrival(Arc<AtomicBool>);

impl Arrival {
    pub fn is_done(&self) {
        self.0.store(true, Relaxed);
    }
}

impl Connected<IncomingStream<'_, Arrivals>> for Arrival {
    fn connect_info(stream: IncomingStream<'_, Arrivals>) -> Self {
        stream.io().arrival.clone()
    }
}

pub struct Arrivals {
    listener: TcpListener,
    half_requests: Arc<Semaphore>,
}

impl Arrivals {
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, half_requests: Arc::new(Semaphore::new(MOST_HALF_REQUESTS)) }
    }
}

impl Listener for Arrivals {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            if let Ok(permit) = self.half_requests.clone().try_acquire_owned() {
                return (Connection::new(stream, permit), address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection whose requests must arrive before their deadline.
pub struct Connection {
    stream: TcpStream,
    arrival: Arrival,
    deadline: Pin<Box<Sleep>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn new(stream: TcpStream, permit: OwnedSemaphorePermit) -> Self {
        let arrival = Arrival(Arc::default());
        Self { stream, arrival, deadline: Box::pin(sleep(TIME_FOR_A_REQUEST)), permit: Some(permit) }
    }

    fn has_arrived(&mut self) -> bool {
        let arrived = self.arrival.0.load(Relaxed);
        if arrived {
            self.permit = None;
        }
        arrived
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.has_arrived() && self.deadline.as_mut().poll(task).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(task, to)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.has_arrived();
        Pin::new(&mut self.stream).poll_write(task, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
