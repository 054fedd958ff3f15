//! Random actions in a simulated cluster. A sequence that fails is made shorter as long as it still fails.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use crate::cases;
use crate::mutator::{self, Action};
use crate::sim::faults::Chance;
use crate::sim::world::{World, oracles};
use crate::subjects::{Of, Subject};

const STEPS: usize = 12;
/// How often a sequence that fails is tried with less in it.
const ATTEMPTS: usize = 40;

/// What people do: a seed, or the actions themselves.
#[derive(Clone)]
pub enum Deeds {
    Seed(u64),
    Actions(Vec<Action>),
}

impl fmt::Display for Deeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => write!(f, "{seed}"),
            Self::Actions(actions) => f.write_str(&serde_json::to_string(actions).map_err(|_| fmt::Error)?),
        }
    }
}

impl FromStr for Deeds {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(seed) => Ok(Self::Seed(seed)),
            Err(_) => serde_json::from_str(text).map(Self::Actions),
        }
    }
}

/// Does what a case says and looks at what comes of it. The shortest sequence that still fails is told.
pub async fn go_through(case: Of<Deeds>) {
    let subject = case.subject;
    let actions = match case.case {
        Deeds::Actions(actions) => actions,
        Deeds::Seed(seed) => mutator::draw(subject, &mut Chance::new(seed), STEPS),
    };
    // Simulations in a simulation need a thread of their own.
    let tried = actions.clone();
    if std::thread::spawn(move || fails(subject, &tried))
        .join()
        .is_ok_and(|fails| !fails)
    {
        return;
    }
    let shortest = std::thread::spawn(move || shortened(subject, actions)).join();
    let shortest = shortest.expect("a sequence that fails");
    for action in &shortest {
        eprintln!("  {action:?}");
    }
    let count = shortest.len();
    let case = Deeds::Actions(shortest);
    panic!(
        "these {count} actions are enough: REPLAY='{}' cargo test --test simulation whatever_people_do -- --nocapture",
        Of { subject, case }
    );
}

fn fails(subject: &'static Subject, actions: &[Action]) -> bool {
    catch_unwind(AssertUnwindSafe(|| {
        cases::on_a_paused_clock(play(subject, actions))
    }))
    .is_err()
}

fn shortened(subject: &'static Subject, mut actions: Vec<Action>) -> Vec<Action> {
    let mut attempts = 0;
    let mut at = 0;
    while at < actions.len() && attempts < ATTEMPTS {
        let mut fewer = actions.clone();
        fewer.remove(at);
        attempts += 1;
        if fails(subject, &fewer) {
            actions = fewer;
        } else {
            at += 1;
        }
    }
    actions
}

async fn play(subject: &'static Subject, actions: &[Action]) {
    let mut world = World::new(subject);
    let mut strangers = mutator::Strangers::new();
    for action in actions {
        mutator::act(&mut world, &mut strangers, action).await;
        world.watch_over();
    }
    mutator::all_is_told(&mut world, strangers).await;
    // With what people asked for, if that is good; otherwise with what mends it.
    let is_well = mutator::is_all_well(subject, &mutator::Ground::look(&world).await);
    if is_well {
        world.until_quiet().await;
        oracles::is_as_if_new(&world).await;
    }
    mutator::all_gets_well(&mut world).await;
    for kind in subject.kinds {
        for name in world.names(kind.name()) {
            kind.says_what_is(&world, &name);
        }
    }
    if !is_well {
        oracles::is_as_if_new(&world).await;
    }
    mutator::all_goes(&mut world).await;
    oracles::deletes_name_a_uid(&world);
    oracles::deletes_only_what_it_made(&world);
    oracles::stays_within_its_role(&world);
}
