//! Who owns which field: server-side apply with conflicts, and what every other write takes over.

use serde_json::{Value, json};

use super::fields::{Fields, Step, difference, fields, merge, without};
use super::kinds::Kind;
use super::status::Refusal;

/// Who writes, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Writer {
    pub manager: String,
    pub applies: bool,
    pub status: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Share {
    writer: Writer,
    fields: Fields,
    time: Value,
}

fn shares(object: &Value) -> Vec<Share> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    entries
        .iter()
        .map(|entry| Share {
            writer: Writer {
                manager: entry["manager"].as_str().unwrap_or_default().to_owned(),
                applies: entry["operation"] == "Apply",
                status: entry["subresource"] == "status",
            },
            fields: Fields::decode(&entry["fieldsV1"]),
            time: entry["time"].clone(),
        })
        .collect()
}

fn note(kind: &Kind, object: &mut Value, shares: &[Share]) {
    let entries: Vec<Value> = shares
        .iter()
        .map(|share| {
            let mut entry = json!({
                "manager": share.writer.manager,
                "operation": if share.writer.applies { "Apply" } else { "Update" },
                "apiVersion": kind.api_version(), "fieldsType": "FieldsV1",
                "fieldsV1": share.fields.encode(), "time": share.time,
            });
            if share.writer.status {
                entry["subresource"] = json!("status");
            }
            entry
        })
        .collect();
    object["metadata"]["managedFields"] = json!(entries);
}

/// Whether two objects differ in nothing but when somebody last wrote what.
pub fn same_but_for_times(left: &Value, right: &Value) -> bool {
    let timeless = |left: &Value, right: &Value| alike(left, right, "time", |_, _| true);
    let metadata = |left: &Value, right: &Value| {
        alike(left, right, "managedFields", |left, right| {
            let entries = |entries: &Value| entries.as_array().map_or(0, Vec::len);
            let each = left
                .as_array()
                .into_iter()
                .flatten()
                .zip(right.as_array().into_iter().flatten());
            entries(left) == entries(right) && each.into_iter().all(|(left, right)| timeless(left, right))
        })
    };
    alike(left, right, "metadata", metadata)
}

/// Whether two objects have the same fields, of which one is compared otherwise.
fn alike(left: &Value, right: &Value, field: &str, compare: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Value::Object(left), Value::Object(right)) = (left, right) else {
        return left == right;
    };
    let mut each = left.iter().zip(right);
    let same = |((name, left), (other, right)): ((&String, &Value), (&String, &Value))| {
        name == other
            && if name == field {
                compare(left, right)
            } else {
                left == right
            }
    };
    left.len() == right.len() && each.all(same)
}

/// Has `writer` own what it changed on the way from `old` to `new`, and nobody own what is gone.
pub fn updated(kind: &Kind, old: &Value, new: &mut Value, writer: &Writer, now: &str) {
    let (changed, gone) = difference(kind, old, new);
    let mut all = shares(old);
    if !all.iter().any(|share| share.writer == *writer) {
        all.push(Share {
            writer: writer.clone(),
            fields: Fields::default(),
            time: json!(now),
        });
    }
    for share in &mut all {
        share.fields = share.fields.minus(&gone);
        if share.writer != *writer {
            share.fields = share.fields.minus(&changed);
            continue;
        }
        share.fields = share.fields.plus(&changed);
        if !changed.is_empty() || !gone.is_empty() {
            share.time = json!(now);
        }
    }
    all.retain(|share| !share.fields.is_empty());
    note(kind, new, &all);
}

/// Has `writer`, who created an object by an apply, own what was applied.
pub fn applied_first(kind: &Kind, object: &mut Value, applied: &Value, writer: &Writer, now: &str) {
    let share = Share {
        writer: writer.clone(),
        fields: fields(kind, applied),
        time: json!(now),
    };
    note(kind, object, &[share]);
}

/// What `live` becomes when `applied` is applied to it.
pub fn apply(
    kind: &Kind,
    live: &Value,
    applied: &Value,
    writer: &Writer,
    force: bool,
    now: &str,
) -> Result<Value, Refusal> {
    let asked = fields(kind, applied);
    let mut merged = merge(kind, live, applied);
    let (changed, _) = difference(kind, live, &merged);
    let mut all = shares(live);
    let conflicts: Vec<(String, Fields)> = all
        .iter()
        .filter(|share| share.writer != *writer)
        .map(|share| (share.writer.manager.clone(), share.fields.and(&changed)))
        .filter(|(_, fields)| !fields.is_empty())
        .collect();
    if !conflicts.is_empty() && !force {
        return Err(conflict(&conflicts));
    }
    let before = all.iter().find(|share| share.writer == *writer).cloned();
    for share in all.iter_mut().filter(|share| share.writer != *writer) {
        share.fields = share.fields.minus(&changed);
    }
    if let Some(before) = &before {
        let mut dropped = before.fields.minus(&asked);
        // What somebody else owns too stays, and what it is in; so does a map that was empty and is not any more.
        dropped.0.retain(|path| {
            let mut others = all.iter().filter(|share| share.writer != *writer);
            !asked.reaches(path) && !others.any(|share| share.fields.reaches(path))
        });
        merged = without(kind, &merged, &dropped);
    }
    let time = match &before {
        Some(before) if before.fields == asked && changed.is_empty() => before.time.clone(),
        _ => json!(now),
    };
    let own = Share {
        writer: writer.clone(),
        fields: asked,
        time,
    };
    match all.iter_mut().find(|share| share.writer == *writer) {
        Some(share) => *share = own,
        None => all.push(own),
    }
    all.retain(|share| !share.fields.is_empty());
    note(kind, &mut merged, &all);
    Ok(merged)
}

fn conflict(conflicts: &[(String, Fields)]) -> Refusal {
    let mut told = Vec::new();
    for (manager, fields) in conflicts {
        for path in &fields.0 {
            let steps = path.iter().map(|step| match step {
                Step::Field(name) => format!(".{name}"),
                Step::Key(keys) => format!("[{keys}]"),
                Step::Item(item) => format!("[={item}]"),
            });
            told.push(format!(
                "conflict with \"{manager}\": {}",
                steps.collect::<String>()
            ));
        }
    }
    let (count, s) = (told.len(), if told.len() == 1 { "" } else { "s" });
    Refusal::new(
        409,
        "Conflict",
        format!("Apply failed with {count} conflict{s}: {}", told.join(", ")),
    )
}
