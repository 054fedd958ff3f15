//! Runs scenarios one after the other, with a time for each and the state of the cluster when one fails.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;

use crate::explain;
use crate::outcome::{Failure, Outcome};
use crate::world::{Settings, World};

/// A promise of the product, and how it is checked.
pub struct Scenario {
    /// The path of the function: the promise in words.
    pub name: &'static str,
    pub run: fn(Arc<World>) -> BoxFuture<'static, Outcome>,
}

/// Makes a [`Scenario`] of an `async fn(Arc<World>) -> Outcome`.
macro_rules! scenario {
    ($module:ident :: $function:ident) => {
        $crate::runner::Scenario {
            name: concat!(stringify!($module), "::", stringify!($function)),
            run: |world| Box::pin($module::$function(world)),
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
    for scenario in &chosen {
        let started = Instant::now();
        let outcome = guarded(scenario, Arc::clone(&world)).await;
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("ok     {seconds:6.1} s  {}", scenario.name),
            Err(failure) => {
                println!("FAILED {seconds:6.1} s  {}: {failure}", scenario.name);
                explain::print(&world).await;
                failed.push(scenario.name);
            }
        }
        for note in world.take_notes() {
            println!("                  {note}");
        }
    }
    println!(
        "{} passed, {} failed, {:.0} s",
        chosen.len() - failed.len(),
        failed.len(),
        begun.elapsed().as_secs_f64()
    );
    for name in &failed {
        println!("failed: {name}");
    }
    if failed.is_empty() && !chosen.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A scenario's own outcome, or a failure for one that panicked or hung.
async fn guarded(scenario: &Scenario, world: Arc<World>) -> Outcome {
    let limit = world.settings.patience();
    let mut task = tokio::spawn((scenario.run)(world));
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
