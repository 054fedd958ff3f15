//! The certificates of a database: one authority for each, which issues what its instances show and what the operator logs in with.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use super::desired::names;
use crate::api::database::agent::{INSTANCE_ROLE, OPERATOR_ROLE, REPLICATION_USER, settings_hash};
use crate::pki::authority::{
    AUTHORITY_KEY, BUNDLE, CERTIFICATE, Data, Identity, IssueError, KEY, Subject, client,
};
use crate::runtime::key::ObjectKey;

/// What instances show, as servers, and to each other.
pub const INSTANCE: Subject = Subject {
    authority: "roadstead database authority",
    common_name: REPLICATION_USER,
    unit: Some(INSTANCE_ROLE),
    is_client: true,
};
/// What the operator shows to instances. It is no role of PostgreSQL.
const OPERATOR: Subject = Subject {
    common_name: "roadstead operator",
    unit: Some(OPERATOR_ROLE),
    ..INSTANCE
};

/// How long the operator's own certificate is valid.
const OPERATOR_LIFE: SignedDuration = SignedDuration::from_hours(24);

/// By which names clients, other instances and a port-forward find a server.
pub fn dns_names(database: &str, namespace: &str, cluster_domain: &str) -> BTreeSet<String> {
    let mut dns_names = BTreeSet::from(["localhost".to_owned()]);
    for service in [database.to_owned(), names::read_only(database)] {
        dns_names.extend([
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc"),
            names::host(&service, namespace, cluster_domain),
            service,
        ]);
    }
    let instances = names::instances(database);
    dns_names.extend([
        format!("*.{instances}.{namespace}.svc"),
        format!("*.{}", names::host(&instances, namespace, cluster_domain)),
    ]);
    dns_names
}

/// What the two Secrets hold together. An authority whose Secret is lost is known still from the one with the certificate: it is trusted on while
/// another one is announced, so that nothing is cut off.
pub fn held(authority: Option<&Secret>, tls: Option<&Secret>) -> Data {
    let of = |secret: Option<&Secret>, key: &str| secret?.data.as_ref()?.get(key).cloned();
    let values = [
        (BUNDLE, of(authority, BUNDLE).or_else(|| of(tls, BUNDLE))),
        (AUTHORITY_KEY, of(authority, AUTHORITY_KEY)),
        (CERTIFICATE, of(tls, CERTIFICATE)),
        (KEY, of(tls, KEY)),
    ];
    values
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// What the operator logs in with, issued by the authority in `held`.
///
/// # Errors
/// When there is no authority, or the library cannot make a key.
pub fn operator(held: &Data, now: Timestamp) -> Result<Identity, IssueError> {
    client(held, &OPERATOR, OPERATOR_LIFE, now)
}

/// What the operator logs in with at the instances of each database, as long as that is good.
#[derive(Debug, Default)]
pub struct Identities(Mutex<HashMap<ObjectKey, Issued>>);

/// An identity, by whom and when it was issued.
#[derive(Clone, Debug)]
struct Issued {
    /// In short: the authority's key is not kept twice.
    by: String,
    at: Timestamp,
    identity: Arc<Identity>,
}

impl Identities {
    /// Issued anew for another authority, and when half of its life is over.
    ///
    /// # Errors
    /// As [`operator`].
    pub fn of(&self, key: ObjectKey, held: &Data, now: Timestamp) -> Result<Arc<Identity>, IssueError> {
        let of = |key: &str| held.get(key).map_or(&[][..], |value| &value.0);
        let by = settings_hash([of(BUNDLE), of(AUTHORITY_KEY)].concat());
        let age = |issued: &Issued| now.duration_since(issued.at);
        let is_good = |issued: &&Issued| {
            issued.by == by && (SignedDuration::ZERO..OPERATOR_LIFE / 2).contains(&age(issued))
        };
        if let Some(issued) = self.lock().get(&key).filter(is_good) {
            return Ok(Arc::clone(&issued.identity));
        }
        let identity = Arc::new(operator(held, now)?);
        let issued = Issued {
            by,
            at: now,
            identity: Arc::clone(&identity),
        };
        self.lock().insert(key, issued);
        Ok(identity)
    }

    /// Forgets a database that is no more.
    pub fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Issued>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::authority::step;
    use crate::pki::trust::vouches;

    fn at(days: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * (days + 20_000))
    }

    fn names() -> BTreeSet<String> {
        dns_names("orders", "shop", "cluster.local")
    }

    /// The Secrets after a step.
    fn settled(data: &Data, now: Timestamp) -> Data {
        let step = step(data, &INSTANCE, &names(), now).unwrap();
        step.write.map_or_else(|| data.clone(), |write| write.data)
    }

    #[test]
    fn the_names_are_those_by_which_a_server_is_found() {
        insta::assert_yaml_snapshot!(names());
    }

    #[test]
    fn instances_and_operator_trust_each_other_and_the_second_step_finds_nothing_to_do() {
        let data = settled(&Data::new(), at(0));
        assert!(settled(&data, at(1)) == data);
        let served = step(&data, &INSTANCE, &names(), at(0)).unwrap().served;
        let operator = operator(&data, at(0)).unwrap();
        let host = "orders-1.orders-instances.shop.svc.cluster.local";
        assert!(vouches(&operator.authorities, &served.pair, host, at(0)));
    }

    #[test]
    fn a_lost_authority_is_made_anew_and_what_it_issued_is_trusted_for_another_day() {
        let mut data = settled(&Data::new(), at(0));
        let before = data.clone();
        data.remove(AUTHORITY_KEY);
        let anew = settled(&data, at(5));
        assert!(anew[AUTHORITY_KEY] != before[AUTHORITY_KEY]);
        assert_eq!(anew[CERTIFICATE], before[CERTIFICATE]);
        let served = step(&anew, &INSTANCE, &names(), at(5)).unwrap().served;
        let operator = operator(&anew, at(5)).unwrap();
        assert!(vouches(&operator.authorities, &served.pair, "localhost", at(5)));
        let later = settled(&anew, at(7));
        assert_ne!(later[CERTIFICATE], before[CERTIFICATE]);
    }

    #[test]
    fn the_operator_logs_in_with_the_same_identity_for_half_of_its_life_and_as_long_as_the_authority_is_the_same()
     {
        let (data, other) = (settled(&Data::new(), at(0)), settled(&Data::new(), at(0)));
        let identities = Identities::default();
        let of = |data: &Data, hour: i64| {
            let key = ObjectKey::namespaced("shop", "orders");
            let now = at(0) + SignedDuration::from_hours(hour);
            identities.of(key, data, now).unwrap()
        };
        let first = of(&data, 0);
        assert!(Arc::ptr_eq(&first, &of(&data, 11)));
        let second = of(&data, 12);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&second, &of(&data, 11)), "the clock was set back");
        let third = of(&other, 11);
        assert!(Arc::ptr_eq(&third, &of(&other, 11)) && !Arc::ptr_eq(&third, &of(&data, 11)));
    }
}
