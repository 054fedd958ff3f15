//! What a spec asks for and this version does not do yet: told by name, never passed over. Pure.

use crate::api::database::ValidDatabase;
use crate::api::database::agent::Report;

/// Each field with what becomes of it, in the order of the fields.
pub fn unsupported(database: &ValidDatabase, primary: Option<&Report>) -> Vec<String> {
    let mut found = Vec::new();
    let runs = primary.and_then(|report| report.version.as_deref());
    if let Some(runs) = runs.filter(|runs| database.version.contains('.') && *runs != database.version) {
        found.push(format!(
            "spec.version: PostgreSQL {runs} runs, since that is in the image"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::controllers::database::testing::{database, valid};

    #[rstest]
    #[case::nothing(json!({}), &[])]
    #[case::users(json!({"users": [{"name": "app"}]}), &[])]
    #[case::databases(json!({"databases": [{"name": "orders", "extensions": [{"name": "pg_trgm"}]}, {"name": "more"}]}), &[])]
    #[case::certificate(json!({"tls": {"certificateSecret": "mine"}}), &[])]
    #[case::volume(json!({"storage": {"size": "20Gi"}}), &[])]
    #[case::minor(json!({"version": "17.4"}), &["spec.version"])]
    #[case::the_same_minor(json!({"version": "17.6"}), &[])]
    #[case::backups(json!({"backup": {"enabled": true}}), &[])]
    fn whatever_is_not_done_is_told_by_its_field(#[case] spec: Value, #[case] fields: &[&str]) {
        let mut asked = json!({"instances": 3});
        asked
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        let valid = valid(&database("orders", asked));
        let report = Report {
            version: Some("17.6".into()),
            ..Report::default()
        };
        let found = unsupported(&valid, Some(&report));
        let found: Vec<_> = found
            .iter()
            .map(|text| text.split(": ").next().unwrap())
            .collect();
        assert_eq!(found, fields);
    }
}
