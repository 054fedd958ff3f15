//! A change of each field of a Database.

use serde_json::{Value, json};

/// Those that show nowhere: what cannot be changed once there is a database, what this version does nothing with, and what shows when it is deleted.
pub const WITHOUT_EFFECT: &[&str] = &[
    "backup.schedule",
    "storage.storageClassName",
    "storage.whenDeleted",
];

pub fn changes() -> Vec<(&'static str, Value)> {
    let user = |field: &str, value: Value| {
        let mut user = json!({"name": "app"});
        user[field] = value;
        json!({"users": [user, {"name": "group"}]})
    };
    let database = |field: &str, value: Value| {
        let mut database = json!({"name": "more"});
        database[field] = value;
        json!({"databases": [database]})
    };
    let extension = json!([{"name": "pg_trgm", "version": "1.6"}]);
    let toleration = |field: &str, value: Value| {
        let mut toleration = json!({"key": "team", "operator": "Exists", "effect": "NoExecute"});
        toleration[field] = value;
        json!({"placement": {"tolerations": [toleration]}})
    };
    let password = json!({"name": "secret", "key": "password"});
    vec![
        ("version", json!({"version": "17.4"})),
        ("image", json!({"image": "another:17"})),
        ("size", json!({"size": "large"})),
        ("instances", json!({"instances": 1})),
        (
            "resources.limits",
            json!({"resources": {"limits": {"memory": "3Gi"}}}),
        ),
        (
            "resources.requests",
            json!({"resources": {"requests": {"memory": "300Mi"}}}),
        ),
        ("storage.size", json!({"storage": {"size": "20Gi"}})),
        (
            "storage.whenDeleted",
            json!({"storage": {"whenDeleted": "Delete"}}),
        ),
        ("storage.storageClassName", json!({})),
        ("parameters", json!({"parameters": {"work_mem": "16MB"}})),
        ("synchronous", json!({"synchronous": "required"})),
        ("maximumLagOnFailover", json!({"maximumLagOnFailover": "2Mi"})),
        ("leaseDurationSeconds", json!({"leaseDurationSeconds": 30})),
        ("users[].name", user("name", json!("other"))),
        ("users[].login", user("login", json!(false))),
        ("users[].createDatabase", user("createDatabase", json!(true))),
        ("users[].createRole", user("createRole", json!(true))),
        ("users[].connectionLimit", user("connectionLimit", json!(3))),
        ("users[].memberOf[]", user("memberOf", json!(["group"]))),
        (
            "users[].passwordSecret.name",
            user("passwordSecret", password.clone()),
        ),
        ("users[].passwordSecret.key", user("passwordSecret", password)),
        ("databases[].name", database("name", json!("other"))),
        ("databases[].owner", database("owner", json!("any"))),
        (
            "databases[].extensions[].name",
            database("extensions", extension.clone()),
        ),
        (
            "databases[].extensions[].version",
            database("extensions", extension),
        ),
        ("tls.enabled", json!({"tls": {"enabled": false}})),
        ("tls.required", json!({"tls": {"required": true}})),
        (
            "tls.certificateSecret",
            json!({"tls": {"certificateSecret": "mine"}}),
        ),
        (
            "placement.antiAffinity",
            json!({"placement": {"antiAffinity": "None"}}),
        ),
        (
            "placement.topologyKey",
            json!({"placement": {"topologyKey": "topology.kubernetes.io/zone"}}),
        ),
        (
            "placement.nodeSelector",
            json!({"placement": {"nodeSelector": {"disk": "fast"}}}),
        ),
        (
            "placement.priorityClassName",
            json!({"placement": {"priorityClassName": "high"}}),
        ),
        ("placement.tolerations[].key", toleration("key", json!("other"))),
        (
            "placement.tolerations[].operator",
            toleration("operator", json!("Exists")),
        ),
        (
            "placement.tolerations[].effect",
            toleration("effect", json!("NoSchedule")),
        ),
        (
            "placement.tolerations[].value",
            json!({"placement": {"tolerations": [{"key": "team", "operator": "Equal", "value": "data"}]}}),
        ),
        (
            "placement.tolerations[].tolerationSeconds",
            toleration("tolerationSeconds", json!(30)),
        ),
        ("backup.enabled", json!({"backup": {"enabled": true}})),
        ("backup.schedule", json!({})),
        ("paused", json!({"paused": true})),
    ]
}
