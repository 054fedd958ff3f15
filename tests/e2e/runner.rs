//! Runs scenarios with a time for each, and tells the state of the cluster when one fails: one after the other, but for those that leave each other alone.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::iter;

use crate::explain;
use crate::olm;
use crate::outcome::{Failure, Outcome};
use crate::world::{Own, Settings, World};

/// A promise of the product, and how it is checked.
pub struct Scenario {
    /// The path of the function: the promise in words.
    pub name: &'static str,
    pub run: fn(Arc<World>) -> BoxFuture<'static, Outcome>,
    /// It needs version 0.3.0, changes nothing but its own namespace, and what it waits for is not the machine: others like it may run at the same time.
    /// Whoever asks that every single pause is short is alone with the machine.
    pub apart: bool,
}

/// Makes a [`Scenario`] of an `async fn(Arc<World>) -> Outcome`.
macro_rules! scenario {
    ($module:ident :: $function:ident) => {
        $crate::runner::scenario!($module::$function, apart: false)
    };
    ($module:ident :: $function:ident, apart: $apart:literal) => {
        $crate::runner::Scenario {
            name: concat!(stringify!($module), "::", stringify!($function)),
            run: |world| Box::pin($module::$function(world)),
            apart: $apart,
        }
    };
}
pub(crate) use scenario;

/// Runs the scenarios whose name contains one of the words in `wanted`, or all if there is none.
pub async fn run(settings: Settings, all: &[Scenario], wanted: &[String]) -> ExitCode {
    let chosen: Vec<&Scenario> = all
        .iter()
        .filter(|it| wanted.is_empty() || wanted.iter().any(|word| it.name.contains(word.as_str())))
        .collect();
    let world = match World::new(settings).await {
        Ok(world) => world,
        Err(failure) => {
            eprintln!("e2e: the cluster cannot be used: {failure}");
            return ExitCode::FAILURE;
        }
    };
    println!("running {} of {} scenarios", chosen.len(), all.len());
    let begun = Instant::now();
    let mut failed = Vec::new();
    for group in chosen.chunk_by(|one, next| one.apart && next.apart) {
        failed.extend(together(group, &world).await);
    }
    println!(
        "{} passed, {} failed, {:.0} s",
        chosen.len() - failed.len(),
        failed.len(),
        begun.elapsed().as_secs_f64()
    );
    for Failed { name, why } in &failed {
        println!("failed: {name}: {why}");
    }
    if failed.is_empty() && !chosen.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A scenario that failed, to be named once more at the end: what is told of the cluster in between is long.
struct Failed {
    name: &'static str,
    why: String,
}

/// Those that failed.
async fn together(group: &[&Scenario], world: &Arc<World>) -> Vec<Failed> {
    let width = world.settings.width;
    let shared = group.len() > 1 && width > 1;
    if shared {
        // Nobody takes away what another one uses
        if let Err(failure) = olm::installed(world, "0.3.0").await {
            println!("FAILED to install what scenarios share: {failure}");
            explain::print(world).await;
            let why = format!("what scenarios share is not installed: {failure}");
            let failed = |it: &&Scenario| Failed {
                name: it.name,
                why: why.clone(),
            };
            return group.iter().map(failed).collect();
        }
        world.share(true);
    }
    let failed = iter(group.iter().map(|it| one(it, world, shared)))
        .buffer_unordered(width)
        .filter_map(|failed| async move { failed })
        .collect()
        .await;
    world.share(false);
    failed
}

async fn one(scenario: &Scenario, world: &Arc<World>, shared: bool) -> Option<Failed> {
    let started = Instant::now();
    let own = Arc::new(Own::default());
    let outcome = guarded(scenario, Arc::clone(world), Arc::clone(&own)).await;
    let seconds = started.elapsed().as_secs_f64();
    let failed = match outcome {
        Ok(()) => {
            println!("ok     {seconds:6.1} s  {}", scenario.name);
            None
        }
        Err(failure) => {
            println!("FAILED {seconds:6.1} s  {}: {failure}", scenario.name);
            explain::print(world).await;
            Some(Failed {
                name: scenario.name,
                why: failure.to_string(),
            })
        }
    };
    for note in own.notes() {
        println!("                  {note}");
    }
    // Otherwise the next one does
    if shared && let Err(failure) = world.remove(&own.namespaces()).await {
        println!("                  its namespace is not removed: {failure}");
    }
    failed
}

/// A scenario's own outcome, or a failure for one that panicked or hung.
async fn guarded(scenario: &Scenario, world: Arc<World>, own: Arc<Own>) -> Outcome {
    let limit = world.settings.patience();
    let mut task = tokio::spawn(own.of((scenario.run)(world)));
    match tokio::time::timeout(limit, &mut task).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Err(Failure::new(format!("it panicked: {panic}"))),
        Err(_) => {
            task.abort();
            Err(Failure::new(format!(
                "it was not done after {} s",
                limit.as_secs()
            )))
        }
    }
}
