//! A database that serves, whatever befalls its instances, and loses no write that it acknowledged.
//!
//! All of it with three instances, commits that wait for a replica, writers through the Service all the time, and a look at every instance
//! to see who accepts writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::authority::Authority;
use crate::database::{Database, INSTANCES, REPLACED, SERVING, answer};
use crate::harm::{Harm, mended, tell};
use crate::instance::Others;
use crate::objects::{condition, text};
use crate::olm::{self, Wish};
use crate::outcome::{Outcome, ensure};
use crate::wait::{Seen, throughout, until};
use crate::world::World;

/// How long the API server is out of reach: longer than the Lease lasts.
const OUTAGE: Duration = Duration::from_secs(15);
/// The kubelet brings what has changed in a Secret with its next look at the pod.
const BROUGHT: Duration = Duration::from_secs(180);
/// Writes that go on have no longer gap than this.
const UNDISTURBED: Duration = Duration::from_secs(2);

pub async fn a_database_serves_replicates_and_is_ready(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let started = Instant::now();
    let database = Database::serving(&world, "database", json!({})).await?;
    world.figure("database.created_to_ready", started.elapsed().as_secs_f64(), "s");
    database.all_stream().await?;

    let primary = database.primary().await?;
    let object = database.get().await?;
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_u64);
    let instances = Some(INSTANCES as u64);
    ensure!(
        [number("/status/replicas"), number("/status/readyReplicas")] == [instances; 2]
            && text(&object, "/status/phase") == "Running"
            && text(&object, "/status/primary") == primary.name,
        "{} is the primary, and the status says {}",
        primary.name,
        object.data["status"]
    );
    let endpoint = format!("{}.{}.svc.cluster.local", database.name, database.namespace);
    ensure!(
        text(&object, "/status/endpoint") == endpoint,
        "the endpoint is {:?}, not {endpoint}",
        text(&object, "/status/endpoint")
    );

    let user = primary.exec(&world, &["sh", "-c", "id -u; id -g"]).await?;
    ensure!(user == "999\n999\n", "PostgreSQL runs as {user:?}");

    let observed = database.observed().await?;
    let replicas = database.config(&format!("{}-ro", database.name)).await?;
    until("a replica to show what is written", REPLACED, || async {
        let shown = ["SELECT pg_is_in_recovery() AND count(*) > 0 FROM ledger"];
        Ok(Seen::equal(&answer(&replicas, &shown).await?.as_str(), &"t"))
    })
    .await?;
    let (_, refused) = observed.ledger.failed();
    ensure!(
        refused == 0,
        "writes were refused: {:?}",
        observed.ledger.errors()
    );
    observed.finish().await
}

pub async fn it_shows_the_certificate_that_its_author_names_once_that_is_there(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let spec = json!({"instances": 2, "tls": {"certificateSecret": "named"}});
    let database = Database::serving(&world, "certificate", spec).await?;
    until("the Secret to be missed", REPLACED, || async {
        let object = database.get().await?;
        let seen = condition(&object, "ConfigurationApplied");
        let wanted = seen.reason == "CertificateRefused" && seen.message.contains("Secret named");
        Ok(Seen::when(wanted, (), format!("{seen:?}")))
    })
    .await?;

    let authority = Authority::named("the author's");
    let (certificate, key) = authority.issue("orders", "databases", "orders.example.com");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "named"},
        "stringData": {"ca.crt": authority.certificate(), "tls.crt": certificate, "tls.key": key},
    });
    world.apply(&database.namespace, secret).await?;
    until("every instance to show it", BROUGHT, || async {
        let object = database.get().await?;
        let seen = condition(&object, "ConfigurationApplied");
        Ok(Seen::when(seen.reason == "Applied", (), format!("{seen:?}")))
    })
    .await?;
    // Before as well as after, a replica streams by it.
    database.ready(REPLACED).await?;
    for instance in database.instances().await? {
        let address = &instance.address;
        let login = format!(
            "PGPASSWORD=$(cat /etc/roadstead/credentials/password) /usr/lib/postgresql/*/bin/psql -XAt -c 'SELECT 1' \
             'host=orders.example.com hostaddr={address} user=orders dbname=orders sslmode=verify-full sslrootcert=/etc/roadstead/server-tls/ca.crt'"
        );
        let answer = instance.exec(&world, &["sh", "-c", &login]).await?;
        ensure!(answer == "1\n", "{} answers {answer:?}", instance.name);
    }
    Ok(())
}

pub async fn a_deleted_primary_is_replaced(world: Arc<World>) -> Outcome {
    mended(&world, "deleted", Harm::DeletePod).await
}

pub async fn a_killed_container(world: Arc<World>) -> Outcome {
    mended(&world, "killed", Harm::KillContainer).await
}

pub async fn a_killed_postmaster(world: Arc<World>) -> Outcome {
    mended(&world, "postmaster", Harm::KillPostmaster).await
}

pub async fn a_hung_primary_is_replaced(world: Arc<World>) -> Outcome {
    mended(&world, "hung", Harm::Freeze).await
}

pub async fn a_primary_cut_off_from_the_api_server_yields_and_never_two(world: Arc<World>) -> Outcome {
    mended(&world, "cut-off", Harm::CutOffFromApiServer).await
}

/// It goes on renewing the Lease, and what it acknowledges has to be on a replica: writes wait, and the status says so.
pub async fn a_primary_cut_off_from_its_replicas_acknowledges_nothing_and_all_goes_on_once_that_is_mended(
    world: Arc<World>,
) -> Outcome {
    mended(&world, "no-peers", Harm::CutOffFromPeers).await
}

/// As above, from the API server too, but not from clients.
pub async fn a_primary_cut_off_from_all_others_yields_and_never_two(world: Arc<World>) -> Outcome {
    mended(&world, "isolated", Harm::CutOffFromAll).await
}

/// Its programs, its files and what it says are not the same.
pub async fn another_major_version_fails_over_and_comes_back_as_well(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let spec = json!({"version": "17", "image": world.settings.postgres_17});
    let database = Database::serving(&world, "postgres-17", spec).await?;
    database.all_stream().await?;
    let observed = database.observed().await?;
    let mut each = Vec::new();
    let harms = [Harm::KillPostmaster, Harm::CutOffFromAll, Harm::DeletePod];
    for harm in harms {
        each.push(harm.done_to(&observed).await?);
    }
    database.ready(SERVING).await?;
    tell(&world, "postgres-17", &each);
    for (harm, mended) in harms.iter().zip(&each) {
        harm.keeps_its_bound(std::slice::from_ref(mended))?;
    }
    observed.finish().await
}

pub async fn an_api_server_outage_with_all_peers_in_the_same_state_costs_no_write(
    world: Arc<World>,
) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = Database::serving(&world, "outage", json!({})).await?;
    let observed = database.observed().await?;
    let primary = database.primary().await?;
    let (lease, failed) = (database.lease().await?, observed.ledger.failed());
    let api_server = Others::api_server(&world).await?;
    let mut gaps = Vec::new();
    for _ in 0..world.settings.rounds {
        let begun = Instant::now();
        let mut cuts = Vec::new();
        for instance in database.instances().await? {
            cuts.push(instance.cut_off(&world, &[&api_server]).await?);
        }
        throughout("the primary through an outage", OUTAGE, || async {
            let gap = observed.ledger.pause(begun, Instant::now());
            let instead = format!("no write for {gap:?}: {:?}", observed.ledger.errors());
            Ok(Seen::when(gap < UNDISTURBED, (), instead))
        })
        .await?;
        for cut in cuts {
            cut.mend(&world).await?;
        }
        // Nor may anything come of it afterwards
        tokio::time::sleep(Duration::from_secs(8)).await;
        gaps.push(observed.ledger.pause(begun, Instant::now()));
        database.all_stream().await?;
        database.ready(REPLACED).await?;
    }
    let now = (database.primary().await?.uid, database.lease().await?);
    let before = (primary.uid, lease);
    ensure!(
        now == before,
        "the primary and its Lease were {before:?}, are {now:?}"
    );
    let after = observed.ledger.failed();
    ensure!(
        after == failed,
        "(in doubt, refused) were {failed:?}, are {after:?}: {:?}",
        observed.ledger.errors()
    );
    world.seconds("database.outage.longest_gap", &gaps);
    observed.finish().await
}

pub async fn the_operator_being_down_changes_nothing(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = Database::serving(&world, "unattended", json!({})).await?;
    let observed = database.observed().await?;
    let before = pods(&database).await?;
    let begun = Instant::now();
    olm::uninstall(&world).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let gap = observed.ledger.pause(begun, Instant::now());
    ensure!(
        gap < UNDISTURBED && observed.ledger.failed() == (0, 0),
        "without the operator no write was acknowledged for {gap:?}: {:?}",
        observed.ledger.errors()
    );
    let now = pods(&database).await?;
    ensure!(now == before, "pods were {before:?}, are {now:?}");

    let mut mended = Vec::new();
    for _ in 0..world.settings.rounds {
        mended.push(Harm::DeletePod.done_to(&observed).await?);
    }
    tell(&world, "unattended", &mended);
    Harm::DeletePod.keeps_its_bound(&mended)?;

    until("every pod to be labelled with its role", REPLACED, || async {
        let pods = pods(&database).await?;
        let labelled = pods.iter().all(|(_, _, role)| !role.is_empty());
        Ok(Seen::when(labelled, (), format!("{pods:?}")))
    })
    .await?;
    let left = (pods(&database).await?, database.lease().await?);
    olm::install(&world, Wish::manual("candidate", "0.3.0"), "0.3.0").await?;
    database.ready(SERVING).await?;
    let found = (pods(&database).await?, database.lease().await?);
    ensure!(
        found == left,
        "the operator came back: it was {left:?}, is {found:?}"
    );
    observed.finish().await
}

/// Name, UID and role of every pod.
async fn pods(database: &Database) -> Outcome<Vec<(String, String, String)>> {
    let all = database.instances().await?;
    Ok(all.into_iter().map(|it| (it.name, it.uid, it.role)).collect())
}
