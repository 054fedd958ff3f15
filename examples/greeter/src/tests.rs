//! The decisions as tables, and what is written down beside the code: crds/ and README.md.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use rstest::rstest;

use roadstead::runtime::events::EventType;

use crate::operator::api::{Greeting, GreetingSpec, GreetingStatus, Person, PersonSpec};
use crate::operator::decide;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn greeting(name: Option<&str>, surname: Option<&str>) -> Greeting {
    let (name, surname) = (name.map(str::to_owned), surname.map(str::to_owned));
    let mut greeting = Greeting::new("greeting", GreetingSpec { name, surname });
    greeting.metadata.generation = Some(7);
    greeting
}

/// A Greeting to the Doe family that names these people already.
fn naming(people: &[&str]) -> Greeting {
    let status = GreetingStatus {
        people: people.iter().map(ToString::to_string).collect(),
        ..GreetingStatus::default()
    };
    Greeting {
        status: Some(status),
        ..greeting(None, Some("Doe"))
    }
}

fn person(object: &str, first_name: &str, surname: &str) -> Person {
    let (first_name, surname) = (first_name.to_owned(), surname.to_owned());
    Person::new(object, PersonSpec { first_name, surname })
}

fn leaving(mut person: Person) -> Person {
    person.metadata.deletion_timestamp = Some(Time(NOW));
    person
}

/// The status of a Greeting among all of these people.
fn greeted(greeting: &Greeting, people: impl IntoIterator<Item = Person>) -> GreetingStatus {
    let family = decide::family(greeting, people.into_iter().map(Arc::new).collect());
    decide::greet(greeting, &family, NOW).1
}

fn does() -> [Person; 3] {
    [
        person("johnd", "John", "Doe"),
        person("roe", "Richard", "Roe"),
        person("janed", "Jane", "Doe"),
    ]
}

#[test]
fn a_name_is_greeted() {
    let status = greeted(&greeting(Some("World"), None), does());
    assert_eq!(status.message, "Hello, World");
    assert!(status.people.is_empty());
}

#[test]
fn a_family_is_greeted_by_first_name_and_its_objects_are_named_in_the_same_order() {
    let status = greeted(&greeting(None, Some("Doe")), does());
    assert_eq!(status.message, "Hello to the Doe family: Jane, John");
    assert_eq!(status.people, ["janed", "johnd"]);
}

#[test]
fn of_one_first_name_the_object_names_decide() {
    let people = ["c", "a", "b"].map(|object| person(object, "Jane", "Doe"));
    assert_eq!(
        greeted(&greeting(None, Some("Doe")), people).people,
        ["a", "b", "c"]
    );
}

#[test]
fn somebody_who_is_being_deleted_is_not_greeted_any_more() {
    let [john, roe, jane] = does();
    let status = greeted(&naming(&["janed", "johnd"]), [leaving(john), roe, jane]);
    assert_eq!(status.message, "Hello to the Doe family: Jane");
    assert_eq!(status.people, ["janed"]);
}

#[rstest]
#[case::a_name(Some("World"), None, "True", "Greeted", "Hello, World")]
#[case::nobody(
    None,
    Some("Poe"),
    "False",
    "NobodyToGreet",
    "There is nobody of the Poe family"
)]
#[case::neither(None, None, "False", "InvalidSpec", "give exactly one of name and surname")]
#[case::both(
    Some("World"),
    Some("Doe"),
    "False",
    "InvalidSpec",
    "give exactly one of name and surname"
)]
fn ready_says_whether_somebody_is_greeted_and_of_which_generation(
    #[case] name: Option<&str>,
    #[case] surname: Option<&str>,
    #[case] ready: &str,
    #[case] reason: &str,
    #[case] message: &str,
) {
    let status = greeted(&greeting(name, surname), does());
    assert_eq!((status.message.as_str(), status.people.len()), (message, 0));
    let [condition] = status.conditions.try_into().unwrap();
    assert_eq!(
        (condition.type_.as_str(), condition.status.as_str()),
        ("Ready", ready)
    );
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        (reason, message)
    );
    assert_eq!(condition.observed_generation, Some(7));
}

#[test]
fn only_a_greeting_that_greets_nobody_is_a_warning() {
    assert_eq!(decide::severity("Greeted"), EventType::Normal);
    for reason in ["NobodyToGreet", "InvalidSpec"] {
        assert_eq!(decide::severity(reason), EventType::Warning, "{reason}");
    }
}

#[rstest]
#[case::named(naming(&["janed"]), false, false)]
#[case::named_while_it_is_deleted(naming(&["janed"]), true, false)]
#[case::named_by_one_that_asks_for_others_now(Greeting { spec: greeting(Some("World"), None).spec, ..naming(&["janed"]) }, false, false)]
#[case::about_to_be_named(greeting(None, Some("Doe")), false, false)]
#[case::no_longer_named_while_it_is_deleted(naming(&["johnd"]), true, true)]
#[case::of_another_family(greeting(None, Some("Roe")), false, true)]
#[case::a_greeting_to_a_name(greeting(Some("Jane"), None), false, true)]
fn a_person_may_go_once_no_greeting_refers_to_it(
    #[case] greeting: Greeting,
    #[case] is_leaving: bool,
    #[case] may_go: bool,
) {
    let jane = person("janed", "Jane", "Doe");
    let jane = if is_leaving { leaving(jane) } else { jane };
    assert_eq!(decide::may_go(&jane, &[Arc::new(greeting)]), may_go);
    assert!(decide::may_go(&jane, &[]));
}

#[test]
fn a_person_says_who_refers_to_it() {
    let condition = |greetings: &[Arc<Greeting>]| {
        let status = decide::describe(&person("janed", "Jane", "Doe"), greetings, NOW);
        let [condition] = status.conditions.try_into().unwrap();
        assert_eq!(condition.type_, "Greeted");
        (condition.status, condition.message)
    };
    let told = |status: &str, message: &str| (status.to_owned(), message.to_owned());
    assert_eq!(condition(&[]), told("False", "no Greeting refers to it"));
    let named = [Arc::new(naming(&["janed"]))];
    assert_eq!(condition(&named), told("True", "Greeting greeting refers to it"));
}

#[test]
fn a_change_concerns_those_who_are_named_and_those_who_are_to_be() {
    let [john, roe, jane] = does();
    let named = Greeting {
        spec: greeting(None, Some("Roe")).spec,
        ..naming(&["janed"])
    };
    let concerned = [&john, &roe, &jane].map(|person| decide::concerns(&named, person));
    assert_eq!(concerned, [false, true, true]);
}

proptest! {
    /// Whoever is named in any order of the cache is held, once each; nobody else is.
    #[test]
    fn the_order_of_the_people_does_not_matter(
        names in proptest::collection::btree_map("[a-c]{1,2}", ("[A-C]{1,2}", "(Doe|Roe)"), 0..6),
        seed in any::<u64>(),
    ) {
        let mut people: Vec<Person> = names.iter().map(|(object, (first, surname))| person(object, first, surname)).collect();
        let expected = greeted(&greeting(None, Some("Doe")), people.clone());
        if !people.is_empty() {
            let middle = usize::try_from(seed % people.len() as u64).unwrap();
            people.rotate_left(middle);
        }
        let status = greeted(&greeting(None, Some("Doe")), people.clone());
        prop_assert_eq!(&status, &expected);
        let does = people.iter().filter(|person| person.spec.surname == "Doe");
        prop_assert_eq!(status.people.len(), does.count());
        let named = Greeting { status: Some(status), ..greeting(None, Some("Doe")) };
        for person in &people {
            prop_assert_eq!(decide::may_go(person, &[Arc::new(named.clone())]), person.spec.surname != "Doe");
        }
        // The same again: nothing of the status changes, so nothing is written.
        let again = greeted(&named, people);
        prop_assert_eq!(Some(again), named.status);
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn crds_are_what_the_types_say() {
    let differences = crate::crds().unwrap().differences(&folder()).unwrap();
    assert!(
        differences.is_empty(),
        "{differences:?}\nrun cargo run -p roadstead-greeter -- generate"
    );
}

/// Each code block of the tutorial, but for commands, stands word for word in one of the files; `// ...` stands for what is left out.
#[test]
fn the_tutorial_shows_the_code_as_it_is() {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let rust = [
        "src/main.rs",
        "src/operator/api.rs",
        "src/operator/mod.rs",
        "src/operator/decide.rs",
        "src/operator/reconcile.rs",
    ];
    let yaml = [
        "manifests/samples.yaml",
        "manifests/rbac.yaml",
        "manifests/base.yaml",
    ];
    let sources: Vec<String> = rust
        .iter()
        .chain(&yaml)
        .map(|file| read(folder().join(file)))
        .collect();
    let tutorial = read(folder().join("README.md"));
    let blocks: Vec<&str> = tutorial.split("```").skip(1).step_by(2).collect();
    let shown = blocks
        .iter()
        .filter_map(|block| block.strip_prefix("rust\n").or(block.strip_prefix("yaml\n")));
    let mut count = 0;
    for part in shown.flat_map(|block| block.split("// ...\n")) {
        let part = part.trim_end();
        assert!(
            sources.iter().any(|source| source.contains(part)),
            "README.md shows this, which is in no file: change it there too\n{part}"
        );
        count += 1;
    }
    assert!(count >= 5, "the tutorial shows {count} pieces of code");
}

/// What makes it a sample: it can be read in one sitting.
#[test]
fn the_operator_is_under_400_lines() {
    let mut lines = 0;
    let mut folders = vec![folder()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
                lines += std::fs::read_to_string(path).unwrap().lines().count();
            }
        }
    }
    assert!(
        lines < 400,
        "the sample is to stay under 400 lines, tests.rs aside: it has {lines}"
    );
}
