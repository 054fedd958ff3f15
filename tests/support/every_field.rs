//! Every field that people may write does something: a change of it shows in the children or in the status.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cases;
use crate::mutator::of_people;
use crate::sim::kinds::named;
use crate::sim::schema;
use crate::sim::world::World;
use crate::sim::world::snapshot::{self, Snapshot};
use crate::subjects::{Kind, Of, Subject};

/// What every object is called.
const NAME: &str = "any";

/// Each field of each kind, as `MyProxy replicas`.
///
/// # Panics
/// When a kind lists other fields than its schema has.
pub fn cases() -> Vec<Of<String>> {
    // All of them where they are cheap.
    Of::each(|subject| {
        let fields = subject.kinds.iter().flat_map(|kind| fields(*kind));
        fields.step_by(cases::extent([subject.cost, 1, 1]))
    })
}

fn fields(kind: &dyn Kind) -> Vec<String> {
    let mut known = BTreeSet::new();
    leaves(schema::of_spec(named(kind.name())), "", &mut known);
    let listed: BTreeSet<String> = kind
        .changes()
        .iter()
        .map(|(field, _)| (*field).to_owned())
        .collect();
    assert_eq!(listed, known, "the fields of {}", kind.name());
    known
        .iter()
        .filter(|field| !kind.without_effect().contains(&field.as_str()))
        .map(|field| format!("{} {field}", kind.name()))
        .collect()
}

fn leaves(schema: &Value, path: &str, into: &mut BTreeSet<String>) {
    if schema["items"].is_object() {
        return leaves(&schema["items"], &format!("{path}[]"), into);
    }
    let Some(properties) = schema["properties"].as_object() else {
        into.insert(path.to_owned());
        return;
    };
    for (name, field) in properties {
        let separator = if path.is_empty() { "" } else { "." };
        leaves(field, &format!("{path}{separator}{name}"), into);
    }
}

/// Changes one field of an object that is well, and compares.
pub async fn shows(Of { subject, case }: Of<String>) {
    let (kind, field) = case.split_once(' ').expect("a kind and a field");
    let of_kind = subject.kinds.iter().find(|known| known.name() == kind);
    let changes = of_kind.expect("a kind of the subject").changes();
    let (_, change) = changes
        .into_iter()
        .find(|(known, _)| *known == field)
        .expect("a field of the kind");

    let mut world = World::new(subject);
    world.cluster.mend();
    world.populate(NAME).await;
    let before = shown(&world, subject);
    let patched = world.people.patch(kind, NAME, json!({"spec": change})).await;
    patched.expect("a change that the API server takes");
    world
        .until("it is told", |world| {
            world.sim.with(|store| {
                of_people(subject, store.objects())
                    .all(|(kind, object)| kind.is_told(store.objects(), object))
            })
        })
        .await;
    world.until_quiet().await;
    assert_ne!(before, shown(&world, subject), "{case} has no effect");
}

/// Everything but what people wrote, and annotations, in which there are hashes of all that.
fn shown(world: &World, subject: &Subject) -> Snapshot {
    let mut snapshot = snapshot::take(world);
    for object in snapshot.values_mut() {
        if subject.kinds.iter().any(|kind| object["kind"] == kind.name()) {
            object["spec"] = Value::Null;
        }
        for pointer in ["/metadata", "/spec/template/metadata"] {
            if let Some(metadata) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
                metadata.remove("annotations");
            }
        }
    }
    snapshot
}
