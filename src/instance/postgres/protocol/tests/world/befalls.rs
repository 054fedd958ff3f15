//! What may happen to instances.

use std::time::Duration;

use super::super::super::{Seen, Server};
use super::{Volume, World};
use crate::api::database::agent::Timing;

impl World {
    /// The container ends, and PostgreSQL with it. The kubelet says so and starts another one after a while.
    pub fn kill(&mut self, index: usize) {
        let back = self.now + self.chance.millis(300, 3000);
        self.say(format!("{} is killed", self.instances[index].name));
        let identity = self.instances[index].identity();
        self.instances[index].die();
        self.instances[index].returns = Some(back);
        // The kubelet tells by and by. It only counts for those who look.
        if self.chance.below(2) == 0 && self.lease.seen.holder == identity {
            self.lease.seen.ended = true;
        }
    }

    /// The pod is gone, and another of the same name takes over its volume once the old processes are gone.
    pub fn delete(&mut self, index: usize) {
        let back = self.now + self.chance.millis(1000, 8000);
        self.say(format!("{} is deleted", self.instances[index].name));
        let uid = self.chance.next();
        let instance = &mut self.instances[index];
        instance.die();
        instance.uid = uid;
        instance.returns = Some(back);
    }

    /// The same, and the volume is lost.
    pub fn wipe(&mut self, index: usize) {
        self.delete(index);
        self.instances[index].volume = Volume::default();
    }

    /// The container ends and is started again at once, on the volume as it was once.
    pub fn roll_back(&mut self, index: usize, volume: Volume) {
        self.say(format!(
            "the volume of {} is an older one",
            self.instances[index].name
        ));
        let back = self.now + self.chance.millis(300, 1500);
        let instance = &mut self.instances[index];
        instance.die();
        (instance.volume, instance.returns) = (volume, Some(back));
        // As if it had been killed, or stopped, when that was taken.
        let clean = self.chance.below(2) == 0;
        self.instances[index].stop(clean);
    }

    pub fn kill_postgres(&mut self, index: usize) {
        let name = self.instances[index].name.clone();
        self.say(format!("PostgreSQL of {name} is killed"));
        let instance = &mut self.instances[index];
        instance.starts = None;
        instance.stop(false);
    }

    pub fn stop(&mut self, index: usize) {
        let name = self.instances[index].name.clone();
        self.say(format!("{name} is asked to stop"));
        let hurry = self.chance.below(2) == 0;
        self.instances[index].protocol.asked_to_stop(hurry);
    }

    /// Its pod is deleted with no time left: it is told, and the API server takes nothing from it any more.
    pub fn stop_without_the_api_server(&mut self, index: usize) {
        let name = self.instances[index].name.clone();
        self.say(format!(
            "{name} is asked to stop, and the API server knows it no more"
        ));
        self.api_cut.insert(index);
        self.instances[index].protocol.asked_to_stop(true);
    }

    pub fn hand_over(&mut self, index: usize) {
        let answer = self.with(index, |protocol, situation| {
            protocol.asked_to_hand_over(None, situation)
        });
        let name = self.instances[index].name.clone();
        self.say(format!("{name} is asked to hand over: {answer:?}"));
    }

    pub fn restart(&mut self, index: usize) {
        let answer = self.with(index, |protocol, situation| protocol.asked_to_restart(situation));
        let name = self.instances[index].name.clone();
        self.say(format!("{name} is asked to start PostgreSQL again: {answer:?}"));
    }

    /// The operator is about to stop this one, or was and is no more.
    pub fn excuse(&mut self, index: usize) {
        let name = self.instances[index].name.clone();
        let excused = &mut self.settings.excused;
        if !excused.remove(&name) {
            *excused = [name].into();
        }
        self.say(format!("excused: {:?}", self.settings.excused));
    }

    pub fn hang(&mut self, index: usize) {
        let name = self.instances[index].name.clone();
        self.say(format!("PostgreSQL of {name} hangs"));
        let instance = &mut self.instances[index];
        // A start that hangs and is never let go on looks like a recovery, which may take hours.
        instance.hung |= matches!(instance.server, Server::Running(_) | Server::Silent);
    }

    /// Its disk answers nothing for a while: whoever writes hangs, and cannot be killed either.
    pub fn freeze(&mut self, index: usize, time: Duration) {
        let name = self.instances[index].name.clone();
        self.say(format!("the disk of {name} hangs for {time:?}"));
        let until = self.now + time;
        let instance = &mut self.instances[index];
        instance.hung = !matches!(instance.server, Server::Stopped);
        instance.frozen = Some(until);
    }

    /// It receives less than is written from now on, or as much as there is again.
    pub fn slow_down(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        instance.slow = !instance.slow;
        let told = format!("{} is slow: {}", instance.name, instance.slow);
        self.say(told);
    }

    /// Nobody can tell any more how far its log goes, or somebody can again.
    pub fn blind(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        instance.blind = !instance.blind;
        let told = format!("the log of {} cannot be read: {}", instance.name, instance.blind);
        self.say(told);
    }

    /// Nobody is slow any more, nor is there a log that cannot be read.
    pub fn speed_up(&mut self) {
        for instance in &mut self.instances {
            (instance.slow, instance.blind) = (false, false);
        }
    }

    /// Somebody has the Lease be claimed for another time.
    pub fn retime(&mut self) {
        self.settings.timing = Timing::of([6, 12, 30][self.chance.below(3) as usize]);
        self.say(format!("the times are {:?} from now on", self.settings.timing));
    }

    /// Somebody deletes the Lease, and the operator makes it anew.
    pub fn forget_the_lease(&mut self) {
        self.say("the Lease is deleted".to_owned());
        self.lease.seen = Seen::default();
        self.lease.version += 1;
        // What one says of a system identifier is known from the status.
        self.settings.system_identifier = Some("1".to_owned());
    }

    /// PostgreSQL ends, and what it needs for its start is damaged.
    pub fn spoil(&mut self, index: usize) {
        self.kill_postgres(index);
        self.instances[index].volume.spoilt = true;
    }
}
