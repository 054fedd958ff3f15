use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{GATE, database, object};
use super::*;

proptest! {
    /// Nothing that a person can type makes the check fall over; and what passes, no server refuses.
    #[test]
    fn any_text_is_refused_or_safe(field in 0..FIELDS.len(), text in any_text()) {
        let object = FIELDS[field](&text);
        if let Ok(valid) = validate(&database(&object)) {
            prop_assert_eq!(GATE.admit(&object, None), Ok(()));
            let of_settings = valid.parameters.iter().flat_map(|(name, value)| [name.clone(), value.clone()]);
            for string in of_settings {
                prop_assert!(!string.chars().any(|c| c.is_control() || "'\\".contains(c)), "{string:?}");
            }
            let names = valid.parameters.keys().cloned()
                .chain([valid.name.clone(), valid.version.clone(), valid.storage.size.0.clone()])
                .chain(valid.image.clone())
                .chain(valid.storage.class.clone())
                .chain(valid.tls.certificate_secret.clone())
                .chain(valid.placement.node_selector.clone().into_iter().flat_map(|(key, value)| [key, value]))
                .chain(valid.placement.topology_key.clone())
                .chain(valid.resources.requests.values().map(|quantity| quantity.0.clone()))
                .chain(valid.users.iter().flat_map(|user| {
                    let secret = user.password_secret.clone().into_iter().flat_map(|secret| [secret.name, secret.key]);
                    secret.chain([user.name.clone()]).chain(user.member_of.clone()).collect::<Vec<_>>()
                }))
                .chain(valid.databases.iter().flat_map(|database| {
                    let extensions = database.extensions.iter().flat_map(|extension| [extension.name.clone(), extension.version.clone().unwrap_or_default()]);
                    extensions.chain([database.name.clone(), database.owner.clone()]).collect::<Vec<_>>()
                }));
            for name in names {
                prop_assert!(!name.chars().any(|c| c.is_whitespace() || c.is_control() || "'\"\\$;#=(){}".contains(c)), "{name:?}");
            }
            let schedule = valid.backup_schedule.unwrap_or_default();
            prop_assert!(schedule.bytes().all(|b| b.is_ascii_alphanumeric() || b" */,-?@".contains(&b)), "{schedule:?}");
        }
    }

    #[test]
    fn an_update_of_any_text_is_judged(field in 0..FIELDS.len(), was in any_text(), is in any_text()) {
        let (old, new) = (database(&FIELDS[field](&was)), database(&FIELDS[field](&is)));
        prop_assert_eq!(validate_update(&old, &old), Ok(()));
        let _ = validate_update(&old, &new);
    }
}

/// A database with a text in one field, so that one refusal does not hide another field.
const FIELDS: [fn(&str) -> Value; 19] = [
    |text| {
        let mut object = object(json!({}));
        object["metadata"]["name"] = json!(text);
        object
    },
    |text| object(json!({"version": text})),
    |text| object(json!({"image": text})),
    |text| object(json!({"resources": {"requests": {"cpu": text}}})),
    |text| object(json!({"resources": {"limits": {"memory": text}}})),
    |text| object(json!({"storage": {"size": text}})),
    |text| object(json!({"storage": {"storageClassName": text}})),
    |text| object(json!({"parameters": {text: "1"}})),
    |text| object(json!({"parameters": {"application_name": text}})),
    |text| object(json!({"parameters": {"shared_preload_libraries": text}})),
    |text| object(json!({"maximumLagOnFailover": text})),
    |text| object(json!({"users": [{"name": text}]})),
    |text| object(json!({"users": [{"name": "a", "memberOf": [text]}]})),
    |text| object(json!({"users": [{"name": "a", "passwordSecret": {"name": text, "key": text}}]})),
    |text| object(json!({"users": [{"name": "a"}], "databases": [{"name": text, "owner": "a"}]})),
    |text| {
        object(
            json!({"databases": [{"name": "a", "extensions": [{"name": "x", "version": text}, {"name": text}]}]}),
        )
    },
    |text| object(json!({"tls": {"certificateSecret": text}})),
    |text| object(json!({"placement": {"topologyKey": text, "nodeSelector": {text: text}}})),
    |text| object(json!({"backup": {"enabled": true, "schedule": text}})),
];

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z./;{}$\"' \n#~*=\\\\-]{0,12}",
        "\\PC{0,12}",
        "[a-z][a-z0-9_-]{0,8}",
        "pg_[a-z_]{0,12}",
        "1[3-9](\\.[0-9]{1,2})?",
        "[+-]?[0-9]{1,6}(\\.[0-9]{0,3})?(m|k|Ki|Mi|Gi|Ei|E|e[0-9]{1,12})?",
        "([0-9*?]{1,2}|[0-9]{1,2}-[0-9]{1,2}|[*]/[0-9]{1,3}|mon|JAN)( ([0-9*]{1,2}|[0-9]-[0-9]|[*]/[0-9]|feb|sun|1,2)){4}",
    ]
}
