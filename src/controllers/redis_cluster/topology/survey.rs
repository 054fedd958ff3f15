//! What follows from a scene: who owns which slot, who is whose primary, and whether enough is known. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::nodes::{Known, NodeId};
use super::scene::{Member, Node, Place, Report, Scene, State};
use super::slots::{Slot, Slots};

/// What each member of a scene knows, by id. Where each of 500 nodes is asked for each of them, there is no time to search.
#[derive(Debug)]
pub struct Index<'a>(Vec<BTreeMap<NodeId, &'a Known>>);

impl<'a> Index<'a> {
    /// Of this scene.
    pub fn of(scene: &'a Scene) -> Self {
        let known = |member: &'a Member| match &member.state {
            State::Answered(report) => report.view.by_id(),
            State::Absent | State::Silent => BTreeMap::new(),
        };
        Self(scene.members.iter().map(known).collect())
    }
}

/// A node that answered, and what it said.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Who.
    pub node: Node,
    /// What.
    pub report: &'a Report,
    known: &'a BTreeMap<NodeId, &'a Known>,
}

impl<'a> Seen<'a> {
    /// Its line on itself.
    pub fn own(&self) -> &'a Known {
        &self.report.view.myself
    }

    /// Whether Redis has it for a primary, with slots or without.
    pub fn is_primary(&self) -> bool {
        self.own().flags.primary
    }

    /// Whether it knows nobody, or nobody who has said who he is.
    pub fn is_alone(&self) -> bool {
        self.report.view.known.iter().all(|known| known.flags.handshake)
    }

    /// What it knows of another.
    pub fn knows(&self, id: NodeId) -> Option<&'a Known> {
        self.known.get(&id).copied()
    }

    /// Whether it gives a slot away, or takes one over.
    pub fn has_marks(&self) -> bool {
        !self.own().migrating.is_empty() || !self.own().importing.is_empty()
    }

    /// Others that it knows by their own ids.
    fn others(&self) -> impl Iterator<Item = &'a Known> {
        self.report
            .view
            .known
            .iter()
            .filter(|known| !known.flags.handshake)
    }
}

/// Slots that two nodes which answered say they own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// Whoever has the greater configEpoch.
    pub winner: NodeId,
    /// The other one.
    pub loser: NodeId,
    /// Which.
    pub slots: Slots,
}

/// A scene, and what follows from it.
#[derive(Debug)]
pub struct Survey<'a> {
    /// What was seen.
    pub scene: &'a Scene,
    /// Those who answered, by place.
    pub nodes: Vec<Seen<'a>>,
    /// What each owns, be it seen or only told of by others: each slot once.
    pub owners: BTreeMap<NodeId, Slots>,
    /// Who disagrees.
    pub contests: Vec<Contest>,
    by_id: BTreeMap<NodeId, Seen<'a>>,
}

impl<'a> Survey<'a> {
    /// Of this scene, of which the index is.
    pub fn of(scene: &'a Scene, index: &'a Index<'a>) -> Self {
        let members = scene.members.iter().zip(&index.0);
        let mut nodes: Vec<Seen<'_>> = members
            .filter_map(|(member, known)| seen(member, known))
            .collect();
        nodes.sort_by_key(|seen| seen.node.place);
        let (owners, contests) = settle_claims(&nodes);
        // Of two that have one id, the first counts, which is the last that gets there.
        let by_id = nodes.iter().rev().map(|seen| (seen.node.id, *seen)).collect();
        Self {
            scene,
            nodes,
            owners,
            contests,
            by_id,
        }
    }

    /// The node of this id, if it answered.
    pub fn seen(&self, id: NodeId) -> Option<Seen<'a>> {
        self.by_id.get(&id).copied()
    }

    /// What this node owns.
    pub fn slots_of(&self, id: NodeId) -> &Slots {
        const NONE: &Slots = &Slots::none();
        self.owners.get(&id).unwrap_or(NONE)
    }

    /// Who owns this slot.
    pub fn owner(&self, slot: Slot) -> Option<NodeId> {
        let mut owners = self.owners.iter();
        owners.find(|(_, slots)| slots.contains(slot)).map(|(id, _)| *id)
    }

    /// Slots that nobody owns, seen or told of.
    pub fn uncovered(&self) -> Slots {
        let owned = self.owners.values();
        owned.fold(Slots::all(), |rest, slots| rest.difference(slots))
    }

    /// Slots that nobody owns, and that were nobody's a moment ago. Nodes are asked one after another: where one has taken slots over since it answered,
    /// those that answered later know it by a greater configEpoch than its own answer has. What they say of an earlier one is out of date.
    pub fn abandoned(&self) -> Slots {
        let told = self.nodes.iter().flat_map(Seen::others);
        let news = told.filter(|known| {
            let answered = self.seen(known.id).map(|seen| seen.own().config_epoch);
            answered.is_some_and(|epoch| known.config_epoch > epoch)
        });
        news.fold(self.uncovered(), |rest, known| rest.difference(&known.slots))
    }

    /// Pods of the present shape that did not answer, with those that are not there.
    pub fn unanswered(&self) -> impl Iterator<Item = Place> {
        let present = self.scene.present;
        present
            .places()
            .filter(|place| !self.nodes.iter().any(|seen| seen.node.place == *place))
    }

    /// Whether all pods answered. Before, what is missing may be where nobody was asked.
    pub fn is_complete(&self) -> bool {
        self.unanswered().next().is_none()
    }

    /// Whether this pod runs, and said nothing.
    pub fn is_silent(&self, place: Place) -> bool {
        let mut members = self.scene.members.iter();
        members.any(|member| member.place == place && matches!(member.state, State::Silent))
    }

    /// Whether this pod is to stay.
    pub fn stays(&self, place: Place) -> bool {
        self.scene.wanted.has(place)
    }

    /// Those that replicate this node, by their own word.
    pub fn replicas_of(&self, id: NodeId) -> impl Iterator<Item = Seen<'a>> {
        let replicates = move |seen: &Seen<'_>| !seen.is_primary() && seen.own().primary == Some(id);
        self.nodes.iter().copied().filter(replicates)
    }

    /// The present primary of a shard: that with most slots, or that others replicate, or the first one. Others of it may be silent.
    pub fn primary_of(&self, shard: u16) -> Option<Seen<'a>> {
        let primaries = self
            .nodes
            .iter()
            .filter(|seen| seen.node.place.shard == shard && seen.is_primary());
        let weight = |seen: &Seen<'_>| {
            let id = seen.node.id;
            (
                self.slots_of(id).len(),
                self.replicas_of(id).count(),
                Reverse(seen.node.place),
            )
        };
        primaries.copied().max_by_key(weight)
    }

    /// Which shard a node is of: by its pod, by what its pod announced as its name, or else by those that replicate it.
    pub fn shard_of(&self, id: NodeId) -> Option<u16> {
        let own = self.seen(id).map(|seen| seen.node.place.shard);
        own.or_else(|| self.replicas_of(id).map(|seen| seen.node.place.shard).next())
            .or_else(|| self.shard_by_hostname(id))
    }

    /// NAME-ORDINAL.. and NAME-replica-COPY-ORDINAL.. both have the ordinal last in their first label.
    fn shard_by_hostname(&self, id: NodeId) -> Option<u16> {
        let names = self
            .nodes
            .iter()
            .filter_map(|seen| seen.knows(id)?.hostname.as_deref());
        let ordinal = |name: &str| name.split('.').next()?.rsplit_once('-')?.1.parse().ok();
        names.filter_map(ordinal).next()
    }

    /// Ids that somebody knows, and no pod that answered has.
    pub fn ghosts(&self) -> BTreeSet<NodeId> {
        let known = self.nodes.iter().flat_map(Seen::others).map(|known| known.id);
        known.filter(|id| self.seen(*id).is_none()).collect()
    }

    /// For how long nobody has heard of this node, each by its own clock.
    pub fn unheard(&self, id: NodeId) -> Duration {
        let by_view = self.nodes.iter().filter_map(|seen| {
            let pong = seen.knows(id)?.pong_received?;
            Some(seen.report.time.saturating_sub(pong))
        });
        by_view.min().unwrap_or(Duration::MAX)
    }

    /// Whether nobody has heard of this node for as long as a failover takes.
    pub fn is_lost(&self, id: NodeId) -> bool {
        self.unheard(id) > self.scene.node_timeout * 2
    }

    /// The first node that says something else of who owns what than is so.
    pub fn who_disagrees(&self) -> Option<Seen<'a>> {
        let agrees = |seen: &&Seen<'_>| {
            let is_so = |known: &Known| known.slots == *self.slots_of(known.id);
            is_so(seen.own())
                && seen.others().all(is_so)
                && self.owners.keys().all(|id| seen.knows(*id).is_some())
        };
        let mut taking_part = self.taking_part();
        taking_part.find(|seen| !agrees(seen)).copied()
    }

    /// Those that are part of the cluster, or are to be: not those that are to go, and have nothing more to give.
    pub fn taking_part(&self) -> impl Iterator<Item = &Seen<'a>> {
        let takes_part = |seen: &&Seen<'_>| {
            let has_slots = !seen.own().slots.is_empty() || self.owners.contains_key(&seen.node.id);
            self.stays(seen.node.place) || has_slots
        };
        self.nodes.iter().filter(takes_part)
    }
}

fn seen<'a>(member: &'a Member, known: &'a BTreeMap<NodeId, &'a Known>) -> Option<Seen<'a>> {
    let (State::Answered(report), Some(ip)) = (&member.state, member.ip) else {
        return None;
    };
    let (place, id) = (member.place, report.view.myself.id);
    let node = Node { place, id, ip };
    Some(Seen { node, report, known })
}

/// Somebody says that a node owns slots. The order is that of precedence.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    config_epoch: u64,
    /// By the node's own word.
    own: bool,
    id: Reverse<NodeId>,
    slots: Slots,
}

impl Claim {
    fn of(known: &Known, own: bool) -> Self {
        Self {
            config_epoch: known.config_epoch,
            own,
            id: Reverse(known.id),
            slots: known.slots.clone(),
        }
    }
}

/// Of a node that answered, its own word counts alone; of others, what is told of them. The greater configEpoch wins, as it does in Redis.
fn settle_claims(nodes: &[Seen<'_>]) -> (BTreeMap<NodeId, Slots>, Vec<Contest>) {
    let answered: BTreeSet<NodeId> = nodes.iter().map(|seen| seen.node.id).collect();
    let own = nodes.iter().map(|seen| Claim::of(seen.own(), true));
    let told = nodes.iter().flat_map(Seen::others);
    let told = told
        .filter(|known| !answered.contains(&known.id))
        .map(|known| Claim::of(known, false));
    let mut claims: Vec<Claim> = own.chain(told).filter(|claim| !claim.slots.is_empty()).collect();
    claims.sort_unstable_by(|a, b| b.cmp(a));

    let mut owners: BTreeMap<NodeId, Slots> = BTreeMap::new();
    let mut contests = Vec::new();
    let mut taken = Slots::none();
    for claim in claims {
        if claim.own {
            contests.extend(contests_of(&claim, &owners, &answered));
        }
        let won = claim.slots.difference(&taken);
        taken = taken.union(&won);
        if !won.is_empty() {
            let owned = owners.entry(claim.id.0).or_default();
            *owned = owned.union(&won);
        }
    }
    (owners, contests)
}

fn contests_of(claim: &Claim, owners: &BTreeMap<NodeId, Slots>, answered: &BTreeSet<NodeId>) -> Vec<Contest> {
    let contest = |(winner, slots): (&NodeId, &Slots)| Contest {
        winner: *winner,
        loser: claim.id.0,
        slots: slots.intersection(&claim.slots),
    };
    let contests = owners.iter().filter(|(id, _)| answered.contains(id)).map(contest);
    contests.filter(|contest| !contest.slots.is_empty()).collect()
}
