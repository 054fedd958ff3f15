//! Whoever carries out what is said, and may fall at any command.

use super::super::moving::{Command, Mover, Next};
use super::super::nodes::NodeId;
use super::super::scene::{Place, Scene, Shape, State};
use super::super::slots::{SLOTS, Slot, Slots};
use super::super::step::{FailOver, Move, Moving, Step, next};
use super::{World, short, slot_of};

/// How many slots without keys go over one by one before the others do at once.
const STANDING_FOR_ALL: u16 = 20;

/// How many commands are sent until the operator falls.
#[derive(Clone, Copy, Debug)]
pub struct Budget(usize);

impl Budget {
    pub const ENDLESS: Self = Self(usize::MAX);

    pub fn of(commands: usize) -> Self {
        Self(commands)
    }

    fn is_endless(self) -> bool {
        self.0 > usize::MAX / 2
    }

    /// Whether one more is sent.
    fn takes_one(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

impl World {
    /// One look, one step, and what happens meanwhile.
    pub fn reconcile(&mut self, budget: Budget) -> Step {
        self.reconcile_with(|_| budget)
    }

    /// The same, where the budget depends on the step.
    pub fn reconcile_with(&mut self, budget: impl Fn(&Step) -> Budget) -> Step {
        let scene = self.observe();
        let step = next(&scene);
        let mut budget = budget(&step);
        self.note(step.to_string());
        self.check_step(&scene, &step);
        if step.is_change() {
            self.changes += 1;
            self.carry_out(&step, &mut budget);
        }
        self.tick();
        self.check();
        step
    }

    /// Until nothing is left to do; fails if that takes more than so many rounds.
    pub fn settle(&mut self, rounds: usize) {
        for _ in 0..rounds {
            if self.reconcile(Budget::ENDLESS) == Step::Settled {
                return;
            }
        }
        self.fail("it does not settle");
    }

    /// Said once, however often it is so.
    fn note(&mut self, what: String) {
        if !self.history.last().is_some_and(|last| last.ends_with(&what)) {
            self.history
                .push(format!("{}: {what}", self.now / 1_000 % 1_000_000));
        }
    }

    pub fn fail(&self, why: &str) -> ! {
        let last = self.history.len().saturating_sub(40);
        panic!(
            "{why}:\n{}\n{:#?}",
            self.history[last..].join("\n"),
            self.summary()
        );
    }

    fn summary(&self) -> Vec<String> {
        let tell = |server: &super::Server| {
            format!(
                "{} {} of {} at {} up {} ok {} epoch {}/{} owns {} keys {} knows {:?} marks {:?} {:?}",
                server.place,
                server.id,
                server.primary,
                server.ip,
                server.is_up(),
                server.is_ok(),
                server.config_epoch,
                server.current_epoch,
                server.count_owned(server.id),
                server.data.len(),
                server
                    .peers
                    .iter()
                    .map(|(id, peer)| (*id, peer.ip, peer.primary, peer.config_epoch))
                    .collect::<Vec<_>>(),
                server.migrating.iter().take(4).collect::<Vec<_>>(),
                server.importing.iter().take(4).collect::<Vec<_>>(),
            )
        };
        self.servers.values().map(tell).collect()
    }

    /// What must never be said, whatever was seen.
    fn check_step(&self, scene: &Scene, step: &Step) {
        let for_good = match step {
            Step::Shrink { .. } | Step::Assign(_) | Step::Reset { .. } | Step::Forget(_) => true,
            Step::GiveUp { .. } | Step::AssignLost(_) => true,
            Step::FailOver { how, .. } => *how == FailOver::Takeover,
            _ => false,
        };
        let is_silent = scene.members.iter().any(|member| member.state == State::Silent);
        if for_good && is_silent {
            self.fail("somebody who could know more is silent");
        }
        // A pod that is not there may have a volume that is. Only in its place another may take over, and only what is to go may never have been.
        let mut absent = scene
            .members
            .iter()
            .filter(|member| member.state == State::Absent);
        let is_missed = absent.any(|member| scene.wanted.has(member.place));
        if for_good && is_missed && !matches!(step, Step::FailOver { .. }) {
            self.fail("somebody who could know more is not there");
        }
        if scene.bootstrapped && matches!(step, Step::Assign(_) | Step::RecordBootstrapped) {
            self.fail("slots are assigned a second time");
        }
        if !scene.allow_data_loss && matches!(step, Step::GiveUp { .. } | Step::AssignLost(_)) {
            self.fail("data is given up unasked");
        }
        let forgotten: Vec<NodeId> = match step {
            Step::Forget(at_each) => at_each.iter().map(|(_, id)| *id).collect(),
            Step::GiveUp { lost, .. } => vec![*lost],
            _ => Vec::new(),
        };
        if forgotten
            .iter()
            .any(|id| self.servers.values().any(|server| server.id == short(*id)))
        {
            self.fail("somebody who is there is forgotten");
        }
        if let Step::Shrink { to } = step {
            let mut going = self.servers.values().filter(|server| !to.has(server.place));
            if going.any(|server| {
                !server.data.is_empty()
                    || self
                        .servers
                        .values()
                        .any(|other| other.count_owned(server.id) > 0)
            }) {
                self.fail("pods are taken away that hold something");
            }
        }
    }

    /// What must hold at all times, whatever goes wrong.
    fn check(&self) {
        let lost: Vec<_> = self.vanished();
        if !lost.is_empty() {
            self.fail(&format!("keys are nowhere any more: {lost:?}"));
        }
    }

    /// Keys whose last value no server has any more, whether it runs or not, though nobody was to lose them.
    fn vanished(&self) -> Vec<u16> {
        let is_nowhere = |(key, value): &(&u16, &u64)| {
            let mut servers = self.servers.values();
            !self.at_risk.contains(key) && !servers.any(|server| server.data.get(key) == Some(value))
        };
        self.acknowledged
            .iter()
            .filter(is_nowhere)
            .map(|(key, _)| *key)
            .collect()
    }

    /// What a settled cluster has to be like.
    pub fn assert_sound(&mut self) {
        let primaries = self.servers.values().filter(|server| server.is_primary());
        let counts: Vec<usize> = primaries
            .map(|server| server.count_owned(server.id))
            .filter(|count| *count > 0)
            .collect();
        assert_eq!(
            counts.iter().sum::<usize>(),
            usize::from(SLOTS),
            "each slot has one owner: {counts:?}"
        );
        assert_eq!(
            counts.len(),
            usize::from(self.wanted.shards),
            "each shard has slots"
        );
        assert!(
            counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1,
            "shares are even: {counts:?}"
        );
        assert_eq!(self.present, self.wanted);
        assert_eq!(self.servers.len(), self.wanted.places().count());
        for server in self.servers.values() {
            assert!(server.is_ok());
            assert!(server.migrating.is_empty() && server.importing.is_empty());
            assert_eq!(
                server.peers.len() + 1,
                self.servers.len(),
                "nobody unknown, nobody who is gone"
            );
            assert!(server.is_primary() || server.link_up);
            assert!(
                server
                    .data
                    .keys()
                    .all(|key| !server.is_primary() || server.owns(slot_of(*key)))
            );
        }
        let lost: Vec<_> = self
            .lost()
            .into_iter()
            .filter(|key| !self.at_risk.contains(key))
            .collect();
        if !lost.is_empty() {
            self.fail(&format!("acknowledged keys are lost: {lost:?}"));
        }
        let changes = self.changes;
        for _ in 0..5 {
            let step = self.reconcile(Budget::ENDLESS);
            if step != Step::Settled {
                self.fail("a settled cluster stays so");
            }
        }
        assert_eq!(self.changes, changes);
    }

    /// Clients and nodes do not wait for the operator.
    fn meanwhile(&mut self) {
        if self.has_clients && self.random.one_in(4) {
            self.write_something();
        }
        if self.random.one_in(400) {
            self.tick();
        }
    }

    /// Whether all of it was done.
    fn carry_out(&mut self, step: &Step, budget: &mut Budget) -> bool {
        match step {
            Step::Grow { to } => self.resize(*to, budget),
            Step::Shrink { to } => self.resize(*to, budget),
            Step::RecordBootstrapped => {
                self.bootstrapped |= budget.takes_one();
                self.bootstrapped
            }
            Step::SetEpochs(epochs) => self.each(epochs, budget, |world, (node, epoch)| {
                world.set_epoch(*node, *epoch)
            }),
            Step::Heal(meetings) | Step::Meet(meetings) => self.each(meetings, budget, |world, meeting| {
                world.meet_command(meeting.at, meeting.whom)
            }),
            Step::Assign(shares) => self.each(shares, budget, |world, (node, slots)| {
                world.add_slots(*node, slots)
            }),
            Step::AssignLost(shares) => {
                let parts: Vec<_> = shares
                    .iter()
                    .flat_map(|share| (0..3).map(move |part| (share, part)))
                    .collect();
                self.each(&parts, budget, |world, ((node, slots), part)| match part {
                    0 => world.delete_slots(*node, slots),
                    1 => world.add_slots(*node, slots),
                    _ => world.bump_epoch(*node),
                })
            }
            Step::Replicate { replica, primary } => self.each(&[()], budget, |world, ()| {
                world.replicate_command(*replica, primary.id)
            }),
            Step::Close { node, slots } => {
                let slots: Vec<Slot> = slots.iter().collect();
                self.each(&slots, budget, |world, slot| {
                    let (at, slot) = (*node, *slot);
                    world.answer(&Command::ClearMarks { at, slot });
                    Ok(())
                })
            }
            Step::Tell { node, slots, owner } => {
                let slots: Vec<Slot> = slots.iter().collect();
                self.each(&slots, budget, |world, slot| {
                    let (at, slot, owner) = (*node, *slot, *owner);
                    world.answer(&Command::SetOwner { at, slot, owner });
                    Ok(())
                })
            }
            Step::FailOver { replica, how, .. } => {
                self.each(&[()], budget, |world, ()| world.fail_over(*replica, *how))
            }
            Step::Reset { node } => self.each(&[()], budget, |world, ()| world.reset_hard(*node)),
            Step::Forget(at_each) => self.each(at_each, budget, |world, (at, id)| world.forget(*at, *id)),
            Step::GiveUp { lost, at, .. } => self.each(at, budget, |world, at| world.forget(*at, *lost)),
            Step::Move(plan) => self.move_slots(plan, budget),
            Step::Wait(_) | Step::Degraded(_) | Step::Settled => true,
        }
    }

    fn resize(&mut self, to: Shape, budget: &mut Budget) -> bool {
        if budget.takes_one() {
            self.present = to;
            self.make_pods();
            self.take_pods();
        }
        true
    }

    /// A refusal is written down, and does not keep the others from being done.
    fn each<T>(
        &mut self,
        all: &[T],
        budget: &mut Budget,
        mut one: impl FnMut(&mut Self, &T) -> Result<(), String>,
    ) -> bool {
        for item in all {
            if !budget.takes_one() {
                return false;
            }
            if let Err(why) = one(self, item) {
                self.note(format!("refused: {why}"));
            }
            self.meanwhile();
        }
        true
    }

    fn move_slots(&mut self, plan: &Move, budget: &mut Budget) -> bool {
        let at_once = 1 + self.random.below(700) as u16;
        let mut slots = plan.slots.lowest(at_once);
        let mut alike = Slots::none();
        // As long as the operator does not fall, all slots without keys fare alike: the first ones stand for the rest, or else that would take most of
        // the time of all tests.
        if budget.is_endless() && plan.how == Moving::Hot {
            alike = self.untouched(plan, &slots.difference(&slots.lowest(STANDING_FOR_ALL)));
            slots = slots.difference(&alike);
        }
        let is_done = slots.iter().all(|slot| self.move_slot(plan, slot, budget));
        if is_done {
            // Clients may have written to some meanwhile: those are left for the next time.
            let alike = self.untouched(plan, &alike);
            let up = self.servers.values_mut().filter(|server| server.is_up());
            up.for_each(|server| server.owners.give(&alike, short(plan.to.id)));
        }
        is_done
    }

    /// Those of these slots that have no keys and no marks anywhere, and by all that run are the giver's.
    fn untouched(&self, plan: &Move, slots: &Slots) -> Slots {
        let mut left = slots.clone();
        for server in self.servers.values() {
            let marked = server.migrating.keys().chain(server.importing.keys()).copied();
            let with_keys = server.data.keys().map(|key| slot_of(*key));
            left = left.difference(&marked.chain(with_keys).collect());
            if server.is_up() {
                left = left.intersection(server.owners.slots(short(plan.from.id)));
            }
        }
        left
    }

    fn move_slot(&mut self, plan: &Move, slot: Slot, budget: &mut Budget) -> bool {
        let mut mover = Mover::new(plan, slot);
        let mut answer = None;
        loop {
            let command = match mover.next(answer.take()) {
                Next::Send(command) => command,
                Next::Done => return true,
                Next::Stopped(why) => {
                    self.note(format!("slot {slot} stopped: {why}"));
                    return false;
                }
            };
            if !budget.takes_one() {
                return false;
            }
            answer = Some(self.answer(&command));
            self.meanwhile();
        }
    }

    /// Any of those that are there.
    pub fn some_place(&mut self) -> Place {
        let places: Vec<Place> = self.servers.keys().copied().collect();
        places[self.random.below(places.len())]
    }
}
