//! The statements that make users what they are declared to be. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::super::session::{Rows, SqlError, identifier, literal};
use super::Step;
use crate::api::database::agent::User;

/// The first major version that knows by whom a membership was granted, and what it gives.
const GRANTORS: u32 = 16;

/// The roles that there are of those that were asked for, and what they are members of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    roles: BTreeMap<String, Role>,
    memberships: Vec<Membership>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Role {
    attributes: Attributes,
    has_password: bool,
}

/// What a role may do. None is ever a superuser, replicates, or goes around row security.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attributes {
    superuser: bool,
    inherit: bool,
    create_role: bool,
    create_database: bool,
    login: bool,
    replication: bool,
    bypass_rls: bool,
    connection_limit: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Membership {
    member: String,
    of: String,
    grantor: Option<String>,
    /// It may be passed on, and the role be administered.
    admin: bool,
    /// The role's rights are the member's.
    inherit: bool,
    /// The member may become the role.
    set: bool,
}

impl Attributes {
    fn of(user: &User) -> Self {
        Self {
            superuser: false,
            inherit: true,
            create_role: user.create_role,
            create_database: user.create_database,
            login: user.login,
            replication: false,
            bypass_rls: false,
            connection_limit: user.connection_limit.unwrap_or(-1),
        }
    }

    fn options(self) -> String {
        let word = |has: bool, word: &str| format!("{}{word}", if has { "" } else { "NO" });
        [
            word(self.superuser, "SUPERUSER"),
            word(self.replication, "REPLICATION"),
            word(self.bypass_rls, "BYPASSRLS"),
            word(self.inherit, "INHERIT"),
            word(self.login, "LOGIN"),
            word(self.create_database, "CREATEDB"),
            word(self.create_role, "CREATEROLE"),
            format!("CONNECTION LIMIT {}", self.connection_limit),
        ]
        .join(" ")
    }
}

/// What is there of these users. There has to be one at least.
pub(super) fn lookup(users: &[User], major: u32) -> String {
    let names: Vec<String> = users.iter().map(|user| literal(&user.name)).collect();
    let names = names.join(", ");
    let (grantor, inherit, set) = if major >= GRANTORS {
        ("pg_get_userbyid(m.grantor)", "m.inherit_option", "m.set_option")
    } else {
        ("NULL", "true", "true")
    };
    format!(
        "SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit, \
            rolpassword IS NOT NULL FROM pg_authid WHERE rolname IN ({names}); \
        SELECT u.rolname, r.rolname, {grantor}, m.admin_option, {inherit}, {set} FROM pg_auth_members m \
            JOIN pg_authid u ON u.oid = m.member JOIN pg_authid r ON r.oid = m.roleid \
            WHERE u.rolname IN ({names}) ORDER BY 1, 2, 3"
    )
}

/// What was answered to [`lookup`].
pub(super) fn found(answers: &[Rows]) -> Option<Found> {
    let [roles, memberships] = answers else {
        return None;
    };
    Some(Found {
        roles: roles.iter().map(|row| role(row)).collect::<Option<_>>()?,
        memberships: memberships
            .iter()
            .map(|row| membership(row))
            .collect::<Option<_>>()?,
    })
}

fn role(row: &[Option<String>]) -> Option<(String, Role)> {
    let text = |at: usize| row.get(at)?.as_deref();
    let is = |at: usize| Some(text(at)? == "t");
    let attributes = Attributes {
        superuser: is(1)?,
        inherit: is(2)?,
        create_role: is(3)?,
        create_database: is(4)?,
        login: is(5)?,
        replication: is(6)?,
        bypass_rls: is(7)?,
        connection_limit: text(8)?.parse().ok()?,
    };
    let has_password = is(9)?;
    let role = Role {
        attributes,
        has_password,
    };
    Some((text(0)?.to_owned(), role))
}

fn membership(row: &[Option<String>]) -> Option<Membership> {
    let text = |at: usize| row.get(at)?.as_deref();
    let is = |at: usize| Some(text(at)? == "t");
    Some(Membership {
        member: text(0)?.to_owned(),
        of: text(1)?.to_owned(),
        grantor: text(2).map(str::to_owned),
        admin: is(3)?,
        inherit: is(4)?,
        set: is(5)?,
    })
}

impl Found {
    /// Whether there is such a role.
    pub(super) fn has(&self, user: &str) -> bool {
        self.roles.contains_key(user)
    }

    /// Whether there is such a role, with a password.
    pub(super) fn has_password(&self, user: &str) -> bool {
        self.roles.get(user).is_some_and(|role| role.has_password)
    }
}

/// The field that is about a user.
pub(super) fn field(user: &str) -> String {
    format!("spec.users[{user}]")
}

/// What has to be carried out, in this order, so that all is as declared but the passwords. Nothing where it is.
pub(super) fn steps(users: &[User], found: &Found, major: u32) -> Result<Vec<Step>, SqlError> {
    let mut steps = Vec::new();
    for user in users {
        steps.extend(attributes(user, found)?);
    }
    // First of all: what is turned around would be a circle otherwise.
    for user in users {
        for membership in undeclared(user, found) {
            steps.push(Step::new(field(&user.name), revoke(membership)?));
        }
    }
    for user in users {
        for of in missing(user, found) {
            steps.push(Step::new(field(&user.name), grant(&of, &user.name, major)?));
        }
    }
    Ok(steps)
}

fn attributes(user: &User, found: &Found) -> Result<Option<Step>, SqlError> {
    let wanted = Attributes::of(user);
    let (name, options) = (identifier(&user.name)?, wanted.options());
    Ok(match found.roles.get(&user.name) {
        None => Some(Step {
            is_needed: true,
            ..Step::new(field(&user.name), format!("CREATE ROLE {name} {options}"))
        }),
        Some(role) if role.attributes != wanted => Some(Step::new(
            field(&user.name),
            format!("ALTER ROLE {name} {options}"),
        )),
        Some(_) => None,
    })
}

/// A member of what it was not declared to be a member of. Who may make roles administers those that he made (from PostgreSQL 16 on by a membership that
/// gives nothing else): that is what he was allowed.
fn undeclared<'a>(user: &'a User, found: &'a Found) -> impl Iterator<Item = &'a Membership> {
    let is_undeclared = |membership: &&Membership| {
        let administers = membership.admin && !membership.inherit && !membership.set;
        membership.member == user.name
            && !user.member_of.contains(&membership.of)
            && !(user.create_role && administers)
    };
    found.memberships.iter().filter(is_undeclared)
}

/// With all that was passed on by it, which could keep it from being revoked otherwise.
fn revoke(membership: &Membership) -> Result<String, SqlError> {
    let (of, member) = (identifier(&membership.of)?, identifier(&membership.member)?);
    let by = match &membership.grantor {
        Some(grantor) => format!(" GRANTED BY {}", identifier(grantor)?),
        None => String::new(),
    };
    Ok(format!("REVOKE {of} FROM {member}{by} CASCADE"))
}

/// What the user is to be a member of, with its rights, and is not. In order, each once.
fn missing(user: &User, found: &Found) -> BTreeSet<String> {
    let is_there = |of: &str| {
        let mut memberships = found.memberships.iter();
        memberships.any(|membership| {
            membership.member == user.name && membership.of == of && membership.inherit && membership.set
        })
    };
    let wanted = user.member_of.iter();
    wanted.filter(|of| !is_there(of)).cloned().collect()
}

fn grant(of: &str, member: &str, major: u32) -> Result<String, SqlError> {
    let options = if major >= GRANTORS {
        " WITH INHERIT TRUE, SET TRUE"
    } else {
        ""
    };
    Ok(format!(
        "GRANT {} TO {}{options}",
        identifier(of)?,
        identifier(member)?
    ))
}

/// Takes the password from a role.
pub(super) fn no_password(user: &str) -> Result<String, SqlError> {
    Ok(format!("ALTER ROLE {} PASSWORD NULL", identifier(user)?))
}

#[cfg(test)]
#[path = "roles_tests.rs"]
mod tests;
