//! Whether a trial may begin in a namespace.

use serde_json::Value;

use super::modes::Modes;
use super::{LONGEST_LABEL, Refused, Trial};
use crate::olm::findings::listed;
use crate::olm::manifests::{name, text};
use crate::olm::names::is_label_value;

/// What is in a namespace already.
#[derive(Debug, Default)]
pub struct Place {
    /// Its Subscriptions.
    pub subscriptions: Vec<Value>,
    /// Its OperatorGroups.
    pub groups: Vec<Value>,
    /// Its ClusterServiceVersions that are no copies.
    pub csvs: Vec<Value>,
    /// What has the name that something of the trial will have, each with its kind.
    pub taken: Vec<(String, Value)>,
}

/// Looks whether a bundle may be tried there, and gives the OperatorGroup that has to be made, if there is none.
///
/// `modes` are the ClusterServiceVersion's `installModes`, `csv` is its name, `watch` the namespaces that somebody wants the operator to look after.
///
/// # Errors
/// [`Refused`]: nothing is changed then.
pub fn begin(
    trial: &Trial,
    place: &Place,
    csv: &str,
    modes: &[Value],
    watch: &[String],
) -> Result<Option<Value>, Refused> {
    if trial.package.len() > LONGEST_LABEL {
        return Err(Refused::Package(trial.package.clone()));
    }
    free(trial, place, csv)?;
    let modes = Modes::of(modes);
    match place.groups.as_slice() {
        // It would set going what waits for one
        [] => match place.subscriptions.iter().chain(&place.csvs).next() {
            None => Ok(Some(trial.group(&modes.targets(&trial.namespace, watch)?))),
            Some(waits) => Err(Refused::Waiting {
                namespace: trial.namespace.clone(),
                name: name(waits).to_owned(),
            }),
        },
        [group] => modes.suit(group, &trial.namespace, watch).map(|()| None),
        groups => Err(Refused::Groups {
            namespace: trial.namespace.clone(),
            found: groups.len(),
        }),
    }
}

fn free(trial: &Trial, place: &Place, csv: &str) -> Result<(), Refused> {
    let subscriptions = place.subscriptions.iter();
    let rival = subscriptions
        .clone()
        .find(|it| trial.subscribes(it) && !trial.owns(it));
    if let Some(rival) = rival {
        return Err(Refused::Subscribed {
            name: name(rival).to_owned(),
            namespace: trial.namespace.clone(),
            package: trial.package.clone(),
        });
    }
    let of_that_name = |kind: &str, objects: &[Value], name: &str| {
        let found = objects.iter().find(|it| text(it, "/metadata/name") == name);
        found.map(|it| (kind.to_owned(), it.clone()))
    };
    // A version that no Subscription names keeps OLM from installing it again
    let csv = of_that_name("ClusterServiceVersion", &place.csvs, csv);
    let subscription = of_that_name("Subscription", &place.subscriptions, &trial.package);
    let taken = place.taken.iter().cloned().chain(subscription).chain(csv);
    let taken: Vec<(String, Value)> = taken.collect();
    if taken.iter().any(|(_, object)| trial.owns(object)) {
        return Err(Refused::Running {
            package: trial.package.clone(),
            namespace: trial.namespace.clone(),
        });
    }
    match taken.into_iter().next() {
        None => Ok(()),
        Some((kind, object)) => Err(trial.taken(&kind, &object)),
    }
}

/// The channel of the trial: the one that somebody asks for, or the bundle's default. `own` are the channels that the bundle names.
///
/// No rule of upstream's says what a channel's name is, so one that the bundle names is taken as it is. Any other is one that a person has typed.
///
/// # Errors
/// [`Refused::Channel`]
pub fn channel(asked: Option<&str>, default: &str, own: &[String]) -> Result<String, Refused> {
    let Some(asked) = asked else {
        return Ok(default.to_owned());
    };
    let is_name = !asked.is_empty() && is_label_value(asked);
    if is_name || own.iter().any(|own| own == asked) {
        return Ok(asked.to_owned());
    }
    Err(Refused::Channel {
        channel: asked.to_owned(),
        own: match own {
            [] => "none".to_owned(),
            own => listed(own.iter().map(String::as_str)),
        },
    })
}

/// Looks whether OLM would put a bundle's definitions in the place of others. `found` are those that there are of the bundle's.
///
/// # Errors
/// [`Refused::Defined`]
pub fn replaced(trial: &Trial, found: &[Value]) -> Result<(), Refused> {
    let others = found.iter().filter(|definition| !trial.has_alone(definition));
    let names: Vec<&str> = others.map(name).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Refused::Defined { names: listed(names) })
}
