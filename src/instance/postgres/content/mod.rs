//! Users, databases and extensions, made as they are declared.
//!
//! What there is is looked up first, so that nothing is written where all is as declared: whatever a primary writes goes to its replicas. What is no longer
//! declared stays, but for memberships of declared users.

mod databases;
mod roles;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::options::Options;
use super::prepare;
use super::secrets::{Password, Passwords};
use super::sql::{Local, SqlError};
use crate::api::database::agent::{LogicalDatabase, MAX_UNMADE, MAX_UNMADE_TEXT, Settings, User};
use crate::api::text::shorten;

/// How much a report tells of it: one more is about the owner.
const MOST: usize = MAX_UNMADE - 1;
/// How long a lookup may take. What the image has is in many files.
const LOOKUP: Duration = Duration::from_secs(10);
/// How long a change of a role may take.
const ROLE: Duration = Duration::from_secs(30);
/// How long a database or an extension may take to be made.
const LONG: Duration = Duration::from_secs(120);

/// A statement, and the field that it is about, such as `spec.users[app]`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    field: String,
    statement: String,
    /// Nothing else is of use to its field without it.
    is_needed: bool,
}

impl Step {
    fn new(field: String, statement: String) -> Self {
        Self {
            field,
            statement,
            is_needed: false,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// How many statements changed something.
    pub written: usize,
    /// What could not be made and why, in the order of attempts. None of it tells a secret.
    pub unmade: Vec<String>,
    lacking: BTreeSet<String>,
}

impl Made {
    fn fail(&mut self, field: &str, why: &dyn std::fmt::Display) {
        self.unmade.push(format!("{field}: {why}"));
    }

    /// The same, as long as a report may be.
    pub fn told(&self) -> Vec<String> {
        let mut told: Vec<String> = self.unmade.iter().take(MOST).cloned().collect();
        if self.unmade.len() > MOST {
            told.pop();
            told.push(format!("and {} more", self.unmade.len() - told.len()));
        }
        told.iter().map(|text| shorten(text, MAX_UNMADE_TEXT)).collect()
    }
}

/// Makes content as long as an instance is the primary: which passwords it has set, it knows of itself alone.
#[derive(Debug)]
pub struct Content {
    options: Options,
    local: Local,
    set: BTreeMap<String, Password>,
}

impl Content {
    /// Nothing is connected before something is made.
    pub fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            local: Local::new(options),
            set: BTreeMap::new(),
        }
    }

    /// Makes what is declared and not there: roles, then databases, then extensions. What fails holds up nothing else. It may be dropped at any time.
    pub async fn make(&mut self, settings: &Settings, passwords: &Passwords) -> Made {
        let mut made = Made::default();
        if let Err(error) = self.users(settings, passwords, &mut made).await {
            made.fail("spec.users", &error);
        }
        if let Err(error) = self.databases(&settings.databases, &mut made).await {
            made.fail("spec.databases", &error);
        }
        for database in &settings.databases {
            let field = databases::field(&database.name);
            if database.extensions.is_empty() || made.lacking.contains(&field) {
                continue;
            }
            if let Err(error) = self.extensions(database, &mut made).await {
                made.fail(&format!("{field}.extensions"), &error);
            }
        }
        // Nobody needs a connection until something changes.
        self.local = Local::new(&self.options);
        made
    }

    async fn users(
        &mut self,
        settings: &Settings,
        passwords: &Passwords,
        made: &mut Made,
    ) -> Result<(), SqlError> {
        let users = &settings.users;
        self.set.retain(|name, _| passwords.contains_key(name));
        if users.is_empty() {
            return Ok(());
        }
        let lookup = roles::lookup(users, settings.major);
        let answers = self.local.ask(&lookup, LOOKUP).await?;
        let found = roles::found(&answers).ok_or(SqlError::Odd("its roles cannot be read"))?;
        let steps = roles::steps(users, &found, settings.major)?;
        carry_out(&mut self.local, steps, ROLE, made).await;
        for user in users {
            let field = roles::field(&user.name);
            if !made.lacking.contains(&field) {
                self.password(user, &found, passwords, made).await;
            }
        }
        Ok(())
    }

    /// Has a role's password be what its Secret says. What is not known is left as it is.
    async fn password(&mut self, user: &User, found: &roles::Found, passwords: &Passwords, made: &mut Made) {
        let name = &user.name;
        let statement = match passwords.get(name) {
            None if found.has_password(name) => roles::no_password(name),
            None => return,
            Some(Err(why)) => return made.fail(&roles::field(name), why),
            // A role that was gone has none.
            Some(Ok(password)) if found.has(name) && self.set.get(name) == Some(password) => return,
            Some(Ok(password)) => prepare::password(name, password.as_str()),
        };
        let outcome = match statement {
            Ok(statement) => self.local.ask(&statement, ROLE).await,
            Err(error) => Err(error),
        };
        match (outcome, passwords.get(name)) {
            (Err(error), _) => made.fail(&roles::field(name), &error),
            (Ok(_), Some(Ok(password))) => {
                made.written += 1;
                self.set.insert(name.clone(), password.clone());
            }
            (Ok(_), _) => made.written += 1,
        }
    }

    async fn databases(&mut self, declared: &[LogicalDatabase], made: &mut Made) -> Result<(), SqlError> {
        if declared.is_empty() {
            return Ok(());
        }
        let answers = self.local.ask(&databases::lookup(declared), LOOKUP).await?;
        let found = databases::found(&answers).ok_or(SqlError::Odd("its databases cannot be read"))?;
        let steps = databases::steps(declared, &found)?;
        carry_out(&mut self.local, steps, LONG, made).await;
        Ok(())
    }

    async fn extensions(&self, database: &LogicalDatabase, made: &mut Made) -> Result<(), SqlError> {
        let odd = SqlError::Odd("its extensions cannot be read");
        let (name, declared) = (&database.name, &database.extensions);
        let mut local = Local::of(&self.options, name);
        let answers = local.ask(&databases::lookup_installed(declared), LOOKUP).await?;
        let Some(installed) = databases::found(&answers) else {
            return Err(odd);
        };
        let missing = databases::missing(declared, &installed);
        let mut available = Vec::new();
        if !missing.is_empty() {
            let answers = local.ask(&databases::lookup_available(&missing), LOOKUP).await?;
            available = databases::available(&answers).ok_or(odd)?;
        }
        let steps = databases::extension_steps(name, declared, &installed, &available)?;
        carry_out(&mut local, steps, LONG, made).await;
        Ok(())
    }
}

/// Carries out one after another, whatever becomes of those before, as far as they are of use.
async fn carry_out(local: &mut Local, steps: Vec<Step>, bound: Duration, made: &mut Made) {
    for step in steps {
        if made.lacking.contains(&step.field) {
            continue;
        }
        match local.ask(&step.statement, bound).await {
            Ok(_) => made.written += 1,
            Err(error) => {
                made.fail(&step.field, &error);
                if step.is_needed {
                    made.lacking.insert(step.field);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_what_is_not_there_has_bounds() {
        let mut made = Made::default();
        for user in 0..100 {
            made.fail(&roles::field(&user.to_string()), &"x".repeat(1000));
        }
        let told = made.told();
        assert_eq!(told.len(), MOST);
        assert!(told.iter().all(|text| text.len() <= MAX_UNMADE_TEXT));
        assert!(told[0].starts_with("spec.users[0]: xxx"), "{}", told[0]);
        assert_eq!(told.last().unwrap(), "and 82 more");
        made.unmade.truncate(MOST);
        assert!(made.told().last().unwrap().starts_with("spec.users[18]: "));
    }
}
