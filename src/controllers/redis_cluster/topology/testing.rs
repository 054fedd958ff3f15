//! Scenes for tests: a settled cluster, which is then changed.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::nodes::{Flags, Known, NodeId, View};
use super::scene::{Member, Node, Place, Report, Role, Scene, Shape, State};
use super::slots::{Slot, Slots, even_shares};
use super::step::{Meeting, Move, Step, next};

/// When all scenes are.
const NOW: Duration = Duration::from_secs(1_000_000);

pub fn place(shard: u16, copy: u8) -> Place {
    Place { shard, copy }
}

/// The id of a pod's node, as long as nobody changes it.
pub fn id(shard: u16, copy: u8) -> NodeId {
    let mut bytes = [0; 20];
    (bytes[0], bytes[1]) = (shard as u8 + 1, copy + 1);
    NodeId(bytes)
}

pub fn ip(shard: u16, copy: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, shard as u8, copy + 1))
}

pub fn node(shard: u16, copy: u8) -> Node {
    let (place, id, ip) = (place(shard, copy), id(shard, copy), ip(shard, copy));
    Node { place, id, ip }
}

pub fn slot(number: u16) -> Slot {
    Slot::try_from(number).unwrap()
}

pub fn slots(text: &str) -> Slots {
    text.parse().unwrap()
}

pub fn shape(shards: u16, replicas_per_shard: u8) -> Shape {
    Shape {
        shards,
        replicas_per_shard,
    }
}

/// A line of a cluster whose copy 0 of each shard is its primary.
fn known(place: Place, share: &Slots) -> Known {
    let is_primary = place.copy == 0;
    Known {
        id: id(place.shard, place.copy),
        ip: Some(ip(place.shard, place.copy)),
        port: 6379,
        hostname: None,
        flags: Flags {
            primary: is_primary,
            replica: !is_primary,
            ..Flags::default()
        },
        primary: (!is_primary).then(|| id(place.shard, 0)),
        pong_received: Some(NOW),
        config_epoch: u64::from(place.shard) + 1,
        linked: true,
        slots: if is_primary { share.clone() } else { Slots::none() },
        migrating: Default::default(),
        importing: Default::default(),
    }
}

fn report(own: Known, known: Vec<Known>) -> Report {
    let is_primary = own.flags.primary;
    let flags = Flags {
        myself: true,
        ..own.flags
    };
    Report {
        view: View {
            myself: Known {
                pong_received: None,
                flags,
                ..own
            },
            known,
        },
        role: if is_primary { Role::Primary } else { Role::Replica },
        primary_link_up: !is_primary,
        syncing: false,
        offset: 100,
        keys: 10,
        used_memory: 1_000,
        maxmemory: None,
        cluster_state_ok: true,
        current_epoch: 9,
        time: NOW,
    }
}

fn at(node: &Node) -> String {
    format!("{}/{}", node.place.shard, node.place.copy)
}

fn shares(what: &str, shares: &[(Node, Slots)]) -> String {
    let share = |(node, slots): &(Node, Slots)| format!(" {}:{slots}", at(node));
    what.to_owned() + &shares.iter().map(share).collect::<String>()
}

fn meetings(what: &str, meetings: &[Meeting]) -> String {
    let meeting = |meeting: &Meeting| format!(" {}>{}", at(&meeting.at), at(&meeting.whom));
    what.to_owned() + &meetings.iter().map(meeting).collect::<String>()
}

/// What comes next, in short: what, and to which shard/copy.
pub fn said(scene: &Scene) -> String {
    match next(scene) {
        Step::Grow { to } => format!("grow {}/{}", to.shards, to.replicas_per_shard),
        Step::Shrink { to } => format!("shrink {}/{}", to.shards, to.replicas_per_shard),
        Step::SetEpochs(epochs) => {
            let epoch = |(node, epoch): &(Node, u64)| format!(" {}={epoch}", at(node));
            "epochs".to_owned() + &epochs.iter().map(epoch).collect::<String>()
        }
        Step::Heal(all) => meetings("heal", &all),
        Step::Meet(all) => meetings("meet", &all),
        Step::Assign(all) => shares("assign", &all),
        Step::AssignLost(all) => shares("assign lost", &all),
        Step::RecordBootstrapped => "record".into(),
        Step::Replicate { replica, primary } => format!("replicate {}>{}", at(&replica), at(&primary)),
        Step::Move(Move {
            from,
            to,
            slots,
            how,
            why,
            ..
        }) => format!("{how:?} {}>{} {why:?} {slots}", at(&from), at(&to)).to_lowercase(),
        Step::Close { node, slots } => format!("close {} {slots}", at(&node)),
        Step::Tell { node, slots, owner } => format!("tell {} {slots} {owner:?}", at(&node)),
        Step::FailOver { replica, how, .. } => format!("{how:?} {}", at(&replica)).to_lowercase(),
        Step::Reset { node } => format!("reset {}", at(&node)),
        Step::Forget(at_each) => format!("forget {}", at_each.len()),
        Step::GiveUp { slots, at, .. } => format!("give up {slots} at {}", at.len()),
        Step::Wait(what) => format!("wait for {what}"),
        Step::Degraded(trouble) => {
            let trouble = format!("{trouble:?}");
            trouble.split([' ', '{']).next().unwrap_or_default().to_owned()
        }
        Step::Settled => "settled".into(),
    }
}

impl Scene {
    /// Of this shape, with nothing to be done.
    pub fn settled(shards: u16, replicas: u8) -> Self {
        let present = shape(shards, replicas);
        let shares = even_shares(shards);
        let lines: Vec<Known> = present
            .places()
            .map(|place| known(place, &shares[usize::from(place.shard)]))
            .collect();
        let member = |place: Place| {
            let (own, others) = lines
                .iter()
                .cloned()
                .partition::<Vec<_>, _>(|line| line.id == id(place.shard, place.copy));
            let own = own.into_iter().next().unwrap();
            Member {
                place,
                ip: own.ip,
                state: State::Answered(Box::new(report(own, others))),
            }
        };
        Self {
            wanted: present,
            present,
            bootstrapped: true,
            allow_data_loss: false,
            node_timeout: Duration::from_secs(5),
            memory_limit: None,
            members: present.places().map(member).collect(),
        }
    }

    /// The same, changed.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// A pod.
    pub fn member(&mut self, shard: u16, copy: u8) -> &mut Member {
        let mut members = self.members.iter_mut();
        members.find(|member| member.place == place(shard, copy)).unwrap()
    }

    /// What it said.
    pub fn report(&mut self, shard: u16, copy: u8) -> &mut Report {
        match &mut self.member(shard, copy).state {
            State::Answered(report) => report,
            other => panic!("{other:?}"),
        }
    }

    /// Its line on itself.
    pub fn own(&mut self, shard: u16, copy: u8) -> &mut Known {
        &mut self.report(shard, copy).view.myself
    }

    /// It says this, or nothing.
    pub fn say(&mut self, shard: u16, copy: u8, state: State) {
        self.member(shard, copy).state = state;
    }

    /// What everybody says of this node, itself included.
    pub fn lines(&mut self, id: NodeId, mut change: impl FnMut(&mut Known)) {
        for member in &mut self.members {
            if let State::Answered(report) = &mut member.state {
                let view = &mut report.view;
                let lines = std::iter::once(&mut view.myself).chain(&mut view.known);
                lines.filter(|line| line.id == id).for_each(&mut change);
            }
        }
    }

    /// Nobody has heard of this node for so many seconds.
    pub fn miss(&mut self, id: NodeId, seconds: u64) {
        self.lines(id, |line| {
            line.flags.failed = true;
            line.pong_received = line.pong_received.map(|_| NOW - Duration::from_secs(seconds));
        });
    }

    /// The volume of a pod is lost: it comes back as a node that knows nobody.
    pub fn renew(&mut self, shard: u16, copy: u8) -> NodeId {
        let mut own = known(place(shard, 0), &Slots::none());
        (own.id, own.ip, own.config_epoch) = (id(shard, copy), Some(ip(shard, copy)), 0);
        own.id.0[19] = 7;
        let id = own.id;
        let new = Report {
            keys: 0,
            current_epoch: 0,
            offset: 0,
            ..report(own, Vec::new())
        };
        self.say(shard, copy, State::Answered(Box::new(new)));
        id
    }

    /// A node that is known to all, and knows all.
    pub fn introduce(&mut self, shard: u16, copy: u8) {
        let own = self.own(shard, copy).clone();
        let id = own.id;
        let mut others = Vec::new();
        for member in &mut self.members {
            if let State::Answered(report) = &mut member.state
                && report.view.myself.id != id
            {
                report.view.known.push(Known {
                    pong_received: Some(NOW),
                    ..own.clone()
                });
                others.push(Known {
                    pong_received: Some(NOW),
                    ..report.view.myself.clone()
                });
            }
        }
        let report = self.report(shard, copy);
        (report.view.known, report.current_epoch) = (others, 9);
    }

    /// Slots change hands, and all know.
    pub fn give(&mut self, to: NodeId, what: &Slots) {
        for member in &mut self.members {
            if let State::Answered(report) = &mut member.state {
                for line in std::iter::once(&mut report.view.myself).chain(&mut report.view.known) {
                    line.slots = line.slots.difference(what);
                    if line.id == to {
                        line.slots = line.slots.union(what);
                    }
                }
            }
        }
    }

    /// Nobody knows this id any more.
    pub fn forget(&mut self, id: NodeId) {
        for member in &mut self.members {
            if let State::Answered(report) = &mut member.state {
                report.view.known.retain(|line| line.id != id);
            }
        }
    }
}
