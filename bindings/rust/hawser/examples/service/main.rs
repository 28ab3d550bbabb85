//! A training service over HTTP. Clients post, watch and cancel jobs, and download models. Jobs train one
//! after the other. After a restart, the service resumes unfinished jobs from their checkpoints.
//!   cargo run --example service -- DIRECTORY [PORT] [--root FOLDER]
//!   curl localhost:PORT/jobs -d '{"name": "first", "config": {"preset": "quickstart", "data": {"path": "/tmp/text"}}}'
//!
//!   POST /jobs                    {"name", "config", "checkpoint_every"}
//!   GET  /jobs, /jobs/NAME        states
//!   GET  /jobs/NAME/metrics       streams one row per step
//!   POST /jobs/NAME/cancel
//!   GET  /jobs/NAME/model[/FILE]  the trained model, a Hugging Face folder
//!
//! With --root, configs may name only files below FOLDER. examples/trust.md of the source tree explains whom
//! the service trusts.
mod arrivals;
mod job;
mod jobs;

use std::error::Error;
use std::future::IntoFuture;
use std::path::Path as FilePath;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::{io, thread};

use axum::body::{Body, Bytes};
use axum::extract::connect_info::ConnectInfo;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{header::CONTENT_TYPE, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{future, stream};
use serde_json::{json, Value};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};
use tokio::task::spawn_blocking;

use arrivals::{Arrival, Arrivals};
use jobs::{Jobs, Refused};

type Shared = State<Arc<Jobs>>;
type Answer<T = Json<Value>> = Result<T, Refused>;

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.error}))).into_response()
    }
}

/// Runs code that may wait for a file or a lock on a thread of its own, so that it does not block other
/// requests.
async fn ask<T: Send + 'static>(
    jobs: Arc<Jobs>,
    question: impl FnOnce(&Jobs) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let internal = |error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", format!("{error}"));
    spawn_blocking(move || question(&jobs)).await.map_err(internal)?
}

async fn add(
    State(jobs): Shared,
    ConnectInfo(arrival): ConnectInfo<Arrival>,
    body: Result<Bytes, BytesRejection>,
) -> Answer<(StatusCode, Json<Value>)> {
    arrival.is_done(); // the body has arrived
    let body = body.map_err(|error| Refused::new(error.status(), "BAD_REQUEST", error.body_text()))?;
    let answer = ask(jobs, move |jobs| jobs.add(&body)).await?;
    Ok((StatusCode::CREATED, Json(answer)))
}

async fn list(State(jobs): Shared) -> Answer {
    ask(jobs, |jobs| Ok(jobs.list())).await.map(Json)
}

async fn show(State(jobs): Shared, Path(name): Path<String>) -> Answer {
    ask(jobs, move |jobs| jobs.get(&name)).await.map(Json)
}

async fn cancel(State(jobs): Shared, Path(name): Path<String>) -> Answer<(StatusCode, Json<Value>)> {
    let answer = ask(jobs, move |jobs| jobs.cancel(&name)).await?;
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

async fn metrics(
    State(jobs): Shared,
    ConnectInfo(arrival): ConnectInfo<Arrival>,
    Path(name): Path<String>,
) -> Answer<Response> {
    arrival.is_done(); // the response may take longer than the deadline
    let known = name.clone();
    ask(jobs.clone(), move |jobs| jobs.get(&known)).await?;
    let rows = stream::unfold((jobs, name, 0), |(jobs, name, from)| async move {
        let asked = name.clone();
        match ask(jobs.clone(), move |jobs| jobs.rows(&asked, from)).await {
            Ok(rows) => rows.map(|rows| {
                let next = from + rows.len() as u64;
                (Ok(Bytes::from(rows)), (jobs, name, next))
            }),
            Err(refused) => Some((Err(io::Error::other(refused.error.message)), (jobs, name, from))),
        }
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(rows)).into_response())
}

async fn model(State(jobs): Shared, Path(name): Path<String>) -> Answer {
    ask(jobs, move |jobs| jobs.model(&name)).await.map(Json)
}

async fn model_file(
    State(jobs): Shared,
    ConnectInfo(arrival): ConnectInfo<Arrival>,
    Path((name, file)): Path<(String, String)>,
) -> Answer<Response> {
    arrival.is_done(); // the response may take longer than the deadline
    let path = ask(jobs, move |jobs| jobs.model_file(&name, &file)).await?;
    let file = tokio::fs::File::open(path).await?;
    let bytes = file.metadata().await?.len();
    let parts = stream::try_unfold(file, |mut file| async move {
        let mut part = Vec::with_capacity(1 << 20);
        let read = file.read_buf(&mut part).await?;
        Ok::<_, io::Error>((read > 0).then(|| (Bytes::from(part), file)))
    });
    let headers =
        [("content-type", "application/octet-stream".to_owned()), ("content-length", bytes.to_string())];
    Ok((headers, Body::from_stream(parts)).into_response())
}

fn router(jobs: Arc<Jobs>) -> Router {
    let nothing = |uri: Uri| async move {
        Refused::new(StatusCode::NOT_FOUND, "NOT_FOUND", format!("there is no {}", uri.path()))
    };
    let other_method = |uri: Uri| async move {
        let message = format!("{} does not take this method", uri.path());
        Refused::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
    };
    Router::new()
        .route("/jobs", get(list).post(add))
        .route("/jobs/{name}", get(show))
        .route("/jobs/{name}/metrics", get(metrics))
        .route("/jobs/{name}/cancel", post(cancel))
        .route("/jobs/{name}/model", get(model))
        .route("/jobs/{name}/model/{file}", get(model_file))
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(DefaultBodyLimit::max(1 << 20))
        .with_state(jobs)
}

/// Serves requests until SIGTERM or SIGINT.
async fn listen(jobs: Arc<Jobs>, port: u16) -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = router(jobs).into_make_service_with_connect_info::<Arrival>();
    let server = tokio::spawn(axum::serve(Arrivals::new(listener), service).into_future());
    future::select(pin!(terminate.recv()), pin!(interrupt.recv())).await;
    server.abort();
    Ok(())
}

fn serve(folder: &str, port: u16, root: Option<&str>) -> Result<(), Box<dyn Error>> {
    let jobs = Arc::new(Jobs::open(FilePath::new(folder), root.map(FilePath::new))?);
    let worker = thread::spawn({
        let jobs = jobs.clone();
        move || jobs.work()
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listened = runtime.block_on(listen(jobs.clone(), port));
    jobs.stop();
    worker.join().map_err(|_| "the worker panicked")?;
    Ok(listened?)
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut root = None;
    if let Some(at) = arguments.iter().position(|word| word == "--root") {
        root = arguments.drain(at..(at + 2).min(arguments.len())).nth(1);
    }
    let (folder, port) = match &arguments[..] {
        [folder] if !folder.starts_with('-') => (folder, Ok(0)),
        [folder, port] if !folder.starts_with('-') => (folder, port.parse()),
        _ => {
            eprintln!("usage: service DIRECTORY [PORT] [--root FOLDER]");
            return ExitCode::from(2);
        }
    };
    let served = port
        .map_err(|error| format!("PORT: {error}").into())
        .and_then(|port| serve(folder, port, root.as_deref()));
    if let Err(error) = served {
        eprintln!("service: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
