//! `leasehold-sam-test`: every function with every sample event as Lambda runs it, and as this machine does.

mod caller;
mod container;
mod emulator;
mod engine;
mod error;
mod image;
mod play;
mod program;
mod warm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use leasehold_local::Options;
use leasehold_local::scenes::{self, Scene};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::container::Container;
use crate::emulator::Emulator;
use crate::engine::Engine;
use crate::error::{Error, io};
use crate::image::Image;
use crate::play::{Host, Verdict, play};

/// Invokes every function with every sample event by `sam local invoke`, in a container, against the local DynamoDB, and
/// compares the answer with the one of the same function on this machine and with the contract. What SAM is to run has to
/// be built before, for this machine's instruction set; `make sam-test` does it.
#[derive(Debug, Parser)]
#[command(name = "leasehold-sam-test", version, after_help = EXIT_CODES)]
struct Arguments {
    /// The `sam` to use
    #[arg(long, value_name = "FILE", default_value = "sam")]
    sam: PathBuf,
    /// Where functions run: container takes the Docker that is there, or on Debian as root installs and starts one;
    /// emulator is AWS's runtime interface emulator without a container [default: container if it can be had]
    #[arg(long, value_name = "HOW")]
    by: Option<How>,
    /// Only events whose names contain this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// How many invocations go on at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    at_once: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum How {
    Container,
    Emulator,
}

const EXIT_CODES: &str =
    "Exit codes: 0 all as expected, 1 something was not, or could not be tried, 2 wrong arguments.";

/// How many invocations were made, and what was not as expected.
#[derive(Default)]
struct Score {
    made: usize,
    wrong: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let tested = async {
        let mut interrupted = signal(SignalKind::interrupt()).map_err(io("listen for signals"))?;
        let mut terminated = signal(SignalKind::terminate()).map_err(io("listen for signals"))?;
        // What is dropped on the way ends what it has started.
        tokio::select! {
            tested = test(&arguments) => tested,
            _ = interrupted.recv() => Err(stopped()),
            _ = terminated.recv() => Err(stopped()),
        }
    };
    match tested.await {
        Ok((score, by)) => {
            for wrong in &score.wrong {
                eprintln!("NOT AS EXPECTED: {wrong}");
            }
            let right = score.made.saturating_sub(score.wrong.len());
            println!(
                "sam: {} invocations, {right} as expected, by {by}",
                score.made
            );
            if score.wrong.is_empty() && score.made > 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("leasehold-sam-test: {error}");
            ExitCode::FAILURE
        }
    }
}

fn stopped() -> Error {
    Error::Program {
        program: "the test".to_owned(),
        told: "interrupted".to_owned(),
    }
}

async fn test(arguments: &Arguments) -> Result<(Score, &'static str), Error> {
    let root = Options::default().root;
    let all = scenes::all()?.into_iter();
    let scenes: Vec<_> = all
        .filter(|scene| scene.event.contains(&arguments.only))
        .collect();
    let host = Arc::new(host(arguments, &root).await?);
    let mut score = invoke_all(&host, scenes, usize::from(arguments.at_once)).await?;
    if let Host::Container(container) = &*host
        && arguments.only.is_empty()
    {
        score.made += warm::CALLS;
        score.wrong.extend(warm::walk(container).await?);
        score.wrong.extend(container.not_counted());
    }
    let by = host.name();
    if let Ok(Host::Container(container)) = Arc::try_unwrap(host) {
        container.engine.stop().await;
    }
    Ok((score, by))
}

async fn host(arguments: &Arguments, root: &Path) -> Result<Host, Error> {
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        other => other,
    };
    let sam = std::path::absolute(&arguments.sam).unwrap_or_else(|_| arguments.sam.clone());
    if arguments.by != Some(How::Emulator) {
        match Engine::find(&root.join("target/engine")).await {
            Ok(engine) => {
                let image = Image::find(&engine, architecture).await?;
                return Ok(Host::Container(Box::new(Container {
                    sam,
                    root: root.to_owned(),
                    architecture,
                    engine,
                    image,
                    seen: Mutex::default(),
                })));
            }
            Err(error) if arguments.by.is_some() => return Err(error),
            Err(error) => println!("{error}"),
        }
    }
    println!(
        "engine: NONE, no container is made: AWS's runtime interface emulator runs the functions instead"
    );
    Emulator::find(&sam, root, architecture).map(Host::Emulator)
}

/// The first alone, since SAM makes its image then; the others side by side.
async fn invoke_all(host: &Arc<Host>, scenes: Vec<Scene>, at_once: usize) -> Result<Score, Error> {
    let (mut score, mut playing) = (Score::default(), JoinSet::new());
    for (n, scene) in scenes.into_iter().enumerate() {
        let room = if n < 2 { 1 } else { at_once };
        while playing.len() >= room {
            if let Some(ended) = playing.join_next().await {
                score.take(ended)?;
            }
        }
        let host = Arc::clone(host);
        playing.spawn(async move {
            let start = Instant::now();
            let verdict = play(&host, &scene).await;
            (scene.event, verdict, start.elapsed().as_secs_f64())
        });
    }
    while let Some(ended) = playing.join_next().await {
        score.take(ended)?;
    }
    Ok(score)
}

type Played = (String, Result<Verdict, Error>, f64);

impl Score {
    fn take(&mut self, ended: Result<Played, tokio::task::JoinError>) -> Result<(), Error> {
        let (event, verdict, seconds) = ended.map_err(|error| Error::Program {
            program: "an invocation".to_owned(),
            told: error.to_string(),
        })?;
        self.made += 1;
        let verdict = verdict.unwrap_or_else(|error| Some(error.to_string()));
        let word = if verdict.is_none() {
            "as expected"
        } else {
            "NOT as expected"
        };
        println!("  {event:<24} {word} ({seconds:.1} s)");
        self.wrong
            .extend(verdict.map(|verdict| format!("{event}\n{verdict}")));
        Ok(())
    }
}
