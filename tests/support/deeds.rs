//! Random actions in a simulated cluster.

use std::fmt;
use std::str::FromStr;

use crate::cases::shrink::Steps;
use crate::mutator::{self, Action};
use crate::sim::faults::Chance;
use crate::sim::world::{World, oracles};
use crate::subjects::Of;

const STEPS: usize = 12;

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

impl Steps for Of<Deeds> {
    type Step = Action;

    fn steps(&self) -> Vec<Action> {
        match &self.case {
            Deeds::Actions(actions) => actions.clone(),
            Deeds::Seed(seed) => mutator::draw(self.subject, &mut Chance::new(*seed), STEPS),
        }
    }

    fn is_listed(&self) -> bool {
        matches!(self.case, Deeds::Actions(_))
    }

    fn only(&self, actions: &[Action]) -> Self {
        Self {
            subject: self.subject,
            case: Deeds::Actions(actions.to_vec()),
        }
    }

    fn line(action: &Action) -> String {
        format!("{action:?}")
    }
}

/// Does what a case says and looks at what comes of it.
pub async fn play(case: Of<Deeds>) {
    let subject = case.subject;
    let mut world = World::new(subject);
    let mut strangers = mutator::Strangers::new();
    for action in case.steps() {
        mutator::act(&mut world, &mut strangers, &action).await;
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
