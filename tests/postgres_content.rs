//! Users, databases and extensions in real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[allow(dead_code)]
#[path = "support/postgres.rs"]
mod postgres;

use postgres::{Client, Instance, PASSWORD, two};
use roadstead::api::database::agent::{Extension, LogicalDatabase, User};
use roadstead::instance::postgres::content::{Content, Made};
use roadstead::instance::postgres::secrets::{NoPassword, Password, Passwords};
use roadstead::instance::postgres::sql::Local;

/// A primary, and what makes its content.
struct Primary {
    instance: Instance,
    content: Content,
    passwords: Passwords,
}

impl Primary {
    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(parameters: &[(&str, &str)]) -> Self {
        let [mut instance, _] = two().await;
        let parameters = parameters
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        instance.settings.parameters.extend(parameters);
        instance.initialise().await;
        instance.settings.databases.push(database("orders", "orders"));
        Self {
            content: Content::new(&instance.options),
            instance,
            passwords: Passwords::new(),
        }
    }

    fn declare(&mut self, user: User) -> &mut Self {
        let users = &mut self.instance.settings.users;
        users.retain(|other| other.name != user.name);
        users.push(user);
        self
    }

    fn declare_database(&mut self, database: LogicalDatabase) -> &mut Self {
        let databases = &mut self.instance.settings.databases;
        databases.retain(|other| other.name != database.name);
        databases.push(database);
        self
    }

    fn password(&mut self, user: &str, password: &str) -> &mut Self {
        self.passwords
            .insert(user.to_owned(), Ok(Password::new(password)));
        self
    }

    async fn make(&mut self) -> Made {
        self.content.make(&self.instance.settings, &self.passwords).await
    }

    /// Nothing fails, and there is nothing left to do.
    async fn make_all(&mut self) {
        let made = self.make().await;
        assert!(made.unmade.is_empty(), "{made:?}");
        let before = self.next_transaction().await;
        assert_eq!(self.make().await, Made::default());
        assert_eq!(
            self.next_transaction().await,
            before,
            "a second pass writes nothing"
        );
    }

    async fn next_transaction(&self) -> String {
        self.ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
            .await
    }

    async fn connect(&self, database: &str) -> Client {
        self.instance.connect("postgres", database).await.unwrap()
    }

    /// A text from the superuser's point of view.
    async fn ask(&self, query: &str) -> String {
        self.ask_in("postgres", query).await
    }

    async fn ask_in(&self, database: &str, query: &str) -> String {
        let client = self.connect(database).await;
        client.query_one(query, &[]).await.unwrap().get(0)
    }

    async fn run(&self, statement: &str) {
        self.connect("postgres")
            .await
            .batch_execute(statement)
            .await
            .unwrap();
    }

    /// Logs in over the network; gives what PostgreSQL says if it refuses.
    async fn log_in(&self, user: &str, password: &str, database: &str) -> Result<Client, String> {
        let mut config = tokio_postgres::Config::new();
        config
            .host(&self.instance.settings.members[0].host)
            .port(self.instance.options.port);
        config.user(user).password(password).dbname(database);
        match config.connect(tokio_postgres::NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                Ok(client)
            }
            Err(error) => Err(error.as_db_error().expect("an answer").code().code().to_owned()),
        }
    }

    /// The roles of which it is a member.
    async fn member_of(&self, user: &str) -> String {
        let query = format!(
            "SELECT coalesce(string_agg(r.rolname, ' ' ORDER BY r.rolname), '') FROM pg_auth_members m \
                JOIN pg_roles r ON r.oid = m.roleid WHERE m.member = '{user}'::regrole"
        );
        self.ask(&query).await
    }
}

/// Neither the name nor the password is right.
const REFUSED: &str = "28P01";
/// The role may not log in at all.
const NO_LOGIN: &str = "28000";

fn user(name: &str) -> User {
    User {
        name: name.to_owned(),
        login: true,
        ..User::default()
    }
}

fn member(name: &str, of: &[&str]) -> User {
    User {
        member_of: of.iter().map(|&of| of.to_owned()).collect(),
        ..user(name)
    }
}

fn database(name: &str, owner: &str) -> LogicalDatabase {
    LogicalDatabase {
        name: name.to_owned(),
        owner: owner.to_owned(),
        extensions: Vec::new(),
    }
}

fn extension(name: &str, version: Option<&str>) -> Extension {
    Extension {
        name: name.to_owned(),
        version: version.map(str::to_owned),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_made_as_they_are_declared_and_changed_when_they_are_not() {
    let mut primary = Primary::new().await;
    let full = User {
        create_database: true,
        create_role: true,
        connection_limit: Some(2),
        ..member("App-1", &["readers", "orders", "pg_monitor"])
    };
    let readers = User {
        login: false,
        ..user("readers")
    };
    primary
        .declare(full)
        .declare(readers)
        .password("App-1", "correct horse")
        .password("readers", "mine");
    primary.make_all().await;
    let attributes = "SELECT concat_ws(' ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, \
        rolbypassrls, rolconnlimit, left(rolpassword, 19)) FROM pg_authid WHERE rolname = ";
    assert_eq!(
        primary.ask(&format!("{attributes}'App-1'")).await,
        "f t t t t f f 2 SCRAM-SHA-256$4096:"
    );
    assert_eq!(
        primary.ask(&format!("{attributes}'readers'")).await,
        "f t f f f f f -1 SCRAM-SHA-256$4096:"
    );
    assert_eq!(primary.member_of("\"App-1\"").await, "orders pg_monitor readers");
    primary.log_in("App-1", "correct horse", "orders").await.unwrap();
    assert_eq!(
        primary.log_in("readers", "mine", "orders").await.unwrap_err(),
        NO_LOGIN
    );

    // Somebody gives it more than it is declared to have.
    primary
        .run("ALTER ROLE \"App-1\" SUPERUSER REPLICATION BYPASSRLS NOINHERIT")
        .await;
    primary.declare(user("App-1"));
    primary.make_all().await;
    assert_eq!(
        primary.ask(&format!("{attributes}'App-1'")).await,
        "f t f f t f f -1 SCRAM-SHA-256$4096:"
    );
    assert_eq!(primary.member_of("\"App-1\"").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_membership_that_is_not_declared_is_revoked_and_those_of_others_are_left_alone() {
    let mut primary = Primary::new().await;
    primary.declare(member("app", &["pg_monitor"])).make_all().await;
    // The second could keep the first from being revoked.
    primary
        .run("CREATE ROLE stranger; GRANT pg_write_all_data TO app WITH ADMIN OPTION; GRANT pg_read_all_data TO stranger")
        .await;
    primary
        .run("SET ROLE app; GRANT pg_write_all_data TO stranger")
        .await;
    primary.make_all().await;
    assert_eq!(primary.member_of("app").await, "pg_monitor");
    assert!(
        primary
            .member_of("stranger")
            .await
            .starts_with("pg_read_all_data")
    );
    // Turned around.
    primary.declare(user("a")).declare(member("b", &["a"]));
    primary.make_all().await;
    primary.declare(member("a", &["b"])).declare(user("b"));
    primary.make_all().await;
    assert_eq!(primary.member_of("a").await, "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_rotates_with_its_secret_and_the_old_one_is_worth_nothing() {
    let mut primary = Primary::new().await;
    primary.declare(user("app")).password("app", "it's the old one");
    primary.make_all().await;
    primary.log_in("app", "it's the old one", "orders").await.unwrap();
    primary.password("app", "the new one\\");
    primary.make_all().await;
    primary.log_in("app", "the new one\\", "orders").await.unwrap();
    let old = primary.log_in("app", "it's the old one", "orders").await;
    assert_eq!(old.unwrap_err(), REFUSED);
    // A password that was changed by SQL is what the Secret says again with the next primary.
    primary.run("ALTER ROLE app PASSWORD 'another'").await;
    primary.content = Content::new(&primary.instance.options);
    primary.make_all().await;
    primary.log_in("app", "the new one\\", "orders").await.unwrap();
    // A role that was dropped gets it back.
    primary.run("DROP ROLE app").await;
    primary.make_all().await;
    primary.log_in("app", "the new one\\", "orders").await.unwrap();
    // No Secret, no password.
    primary.passwords.clear();
    primary.make_all().await;
    let none = primary.log_in("app", "the new one\\", "orders").await;
    assert_eq!(none.unwrap_err(), REFUSED);
    primary.password("app", "the new one\\").make_all().await;
    primary.log_in("app", "the new one\\", "orders").await.unwrap();
}

/// What verifies a password is of use to whoever guesses, and readers of statistics are many.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_what_verifies_a_password_who_sees_statements() {
    let library = ("shared_preload_libraries", "pg_stat_statements");
    let mut primary = Primary::with(&[library, ("pg_stat_statements.track", "all")]).await;
    primary.run("CREATE EXTENSION pg_stat_statements").await;
    primary.declare(user("app")).password("app", "s3cret");
    // Its session is one of those that are looked at.
    let mut local = Local::new(&primary.instance.options);
    local
        .prepare(&primary.instance.settings, Some(PASSWORD))
        .await
        .unwrap();
    primary.make_all().await;
    let of = |what: &str| format!("SELECT count(*)::text FROM pg_stat_statements WHERE query LIKE '{what}'");
    assert_eq!(
        primary.ask(&of("CREATE EXTENSION%")).await,
        "1",
        "people's are counted"
    );
    assert_eq!(primary.ask(&of("%SCRAM-SHA-256%$%")).await, "0");
    let shown =
        "SELECT count(*)::text FROM pg_stat_activity WHERE application_name = 'roadstead' AND query <> ''";
    assert_eq!(primary.ask(shown).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_gone_is_told_and_locks_nobody_out() {
    let mut primary = Primary::new().await;
    primary.declare(user("app")).declare(user("other"));
    primary.password("app", "mine").password("other", "theirs");
    primary.make_all().await;
    let missing = NoPassword::Missing("there is no Secret app".to_owned());
    primary.passwords.insert("app".to_owned(), Err(missing));
    primary.password("other", "theirs anew");
    let made = primary.make().await;
    assert_eq!(made.unmade, ["spec.users[app]: there is no Secret app"]);
    primary.log_in("app", "mine", "orders").await.unwrap();
    primary.log_in("other", "theirs anew", "orders").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_are_made_and_given_to_their_owners_and_stay() {
    let mut primary = Primary::new().await;
    primary
        .declare(user("app"))
        .declare(user("next"))
        .password("next", "mine");
    primary
        .declare_database(database("Shop-2", "app"))
        .make_all()
        .await;
    let owner = "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = 'Shop-2'";
    assert_eq!(primary.ask(owner).await, "app");
    primary
        .declare_database(database("Shop-2", "next"))
        .make_all()
        .await;
    assert_eq!(primary.ask(owner).await, "next");
    let person = primary.log_in("next", "mine", "Shop-2").await.unwrap();
    person
        .batch_execute("CREATE TABLE mine (n int)")
        .await
        .expect("an owner makes tables");
    // What is not declared any more stays.
    primary
        .instance
        .settings
        .databases
        .retain(|database| database.name == "orders");
    primary.instance.settings.users.clear();
    primary.make_all().await;
    assert_eq!(primary.ask(owner).await, "next");
}

const EXTENSIONS: &str = "SELECT string_agg(concat_ws(' ', extname, extnamespace::regnamespace, extversion), ', ' ORDER BY extname) \
    FROM pg_extension";

#[tokio::test(flavor = "multi_thread")]
async fn extensions_are_made_in_their_databases_and_brought_to_their_version() {
    let mut primary = Primary::new().await;
    let versions = primary
        .ask("SELECT string_agg(version, ' ' ORDER BY version) FROM pg_available_extension_versions WHERE name = 'pg_trgm'")
        .await;
    let (old, new) = versions.rsplit_once(' ').expect("two versions of pg_trgm");
    let old = old.rsplit(' ').next().unwrap();
    let of = |trgm: &str| LogicalDatabase {
        extensions: vec![
            extension("earthdistance", None),
            extension("pg_trgm", Some(trgm)),
            extension("cube", None),
            // It says itself where it has to be.
            extension("plpgsql", None),
        ],
        ..database("more", "app")
    };
    primary.declare(user("app"));
    // Somebody's own path is none of ours.
    primary
        .run("ALTER ROLE postgres SET search_path = elsewhere")
        .await;
    primary.declare_database(of(old)).make_all().await;
    let person = primary.connect("more").await;
    person.batch_execute("DROP EXTENSION plpgsql").await.unwrap();
    primary.make_all().await;
    let there = primary.ask_in("more", EXTENSIONS).await;
    for expected in [
        "plpgsql pg_catalog ".to_owned(),
        "cube public ".to_owned(),
        "earthdistance public ".to_owned(),
        format!("pg_trgm public {old}"),
    ] {
        assert!(there.contains(&expected), "{expected} in {there}");
    }
    primary.declare_database(of(new)).make_all().await;
    let there = primary.ask_in("more", EXTENSIONS).await;
    assert!(there.contains(&format!("pg_trgm public {new}")), "{there}");
    assert!(!primary.ask_in("orders", EXTENSIONS).await.contains("pg_trgm"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_told_by_its_field_and_holds_up_nothing_else() {
    let mut primary = Primary::new().await;
    primary
        .run("CREATE DATABASE closed ALLOW_CONNECTIONS false")
        .await;
    primary.run("CREATE ROLE taken").await;
    primary.declare(member("app", &["nobody", "pg_monitor"]));
    primary.declare(user("app2")).password("app", "mine");
    primary.declare_database(LogicalDatabase {
        extensions: vec![extension("hstore", None)],
        ..database("lost", "nobody")
    });
    primary.declare_database(LogicalDatabase {
        extensions: vec![extension("hstore", None)],
        ..database("closed", "postgres")
    });
    primary.declare_database(LogicalDatabase {
        extensions: vec![
            extension("no_such_thing", None),
            extension("hstore", Some("0.1")),
            extension("cube", None),
        ],
        ..database("more", "app2")
    });
    let made = primary.make().await;
    let fields: Vec<&str> = made
        .unmade
        .iter()
        .map(|text| text.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.users[app]",
            "spec.databases[lost]",
            "spec.databases[closed].extensions",
            "spec.databases[more].extensions[no_such_thing]",
            "spec.databases[more].extensions[hstore]",
        ],
        "{made:?}"
    );
    assert!(
        made.unmade[0].contains("role \"nobody\" does not exist"),
        "{made:?}"
    );
    assert_eq!(primary.member_of("app").await, "pg_monitor");
    primary.log_in("app", "mine", "more").await.unwrap();
    assert!(primary.ask_in("more", EXTENSIONS).await.contains("cube public"));
    // Once that is mended, all is well.
    primary.declare(member("app", &["pg_monitor"]));
    let wrong = ["lost", "closed", "more"];
    primary
        .instance
        .settings
        .databases
        .retain(|database| !wrong.contains(&database.name.as_str()));
    primary.make_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgresql_that_does_not_answer_is_told_as_a_whole() {
    let mut primary = Primary::new().await;
    primary.declare(user("app"));
    primary.instance.kill().await;
    let made = primary.make().await;
    assert_eq!((made.written, made.unmade.len()), (0, 2), "{made:?}");
    assert!(
        made.unmade[0].starts_with("spec.users: no connection"),
        "{made:?}"
    );
    assert!(
        made.unmade[1].starts_with("spec.databases: no connection"),
        "{made:?}"
    );
    primary.instance.start().await;
    primary.make_all().await;
}
