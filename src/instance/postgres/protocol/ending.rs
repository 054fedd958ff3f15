//! What is given up since somebody waits for the end of this process.

use super::{Command, How, Protocol, Server, Situation, Work};

impl Protocol {
    /// Somebody waits for the end of this process: it waits for nothing that may take minutes.
    pub(super) fn cut_short(&self, situation: &Situation<'_>) -> Option<Command> {
        let leaving = self.leaving.as_ref().filter(|leaving| leaving.exit)?;
        let long = match situation.work {
            Some(Work::Promoting | Work::Stopping) => false,
            Some(_) => true,
            None => matches!(situation.server, Server::Starting | Server::Silent),
        };
        let how = if leaving.hurry { How::Immediate } else { How::Fast };
        long.then_some(Command::Stop(how))
    }
}
