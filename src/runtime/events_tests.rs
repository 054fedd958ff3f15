use super::*;
use crate::telemetry::captured::Captured;

fn key(uid: &str, note: &str) -> Key {
    Key {
        uid: uid.into(),
        type_: EventType::Warning,
        reason: "Failed".into(),
        action: "Reconcile".into(),
        note: note.into(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_said_again_is_counted_and_sent_every_five_minutes_at_most() {
    let (mut memory, start) = (Memory::default(), Instant::now());
    let key = key("1", "no");
    assert_eq!(memory.step(&key, start), Step::Create);
    memory.sent(&key, "web.1".into(), start);
    for second in 1..300 {
        assert_eq!(
            memory.step(&key, start + Duration::from_secs(second)),
            Step::Count
        );
    }
    assert_eq!(
        memory.step(&key, start + REPEAT),
        Step::Repeat {
            name: "web.1".into(),
            count: 301
        }
    );
}

/// Good, bad, good: the last that is to be read is the last that was so.
#[tokio::test(start_paused = true)]
async fn what_is_said_again_after_something_else_is_told_at_once() {
    let (mut memory, start) = (Memory::default(), Instant::now());
    let second = |second| start + Duration::from_secs(second);
    let (good, bad) = (key("1", "good"), key("1", "bad"));
    for (said, name, at) in [(&good, "web.1", 0), (&bad, "web.2", 1)] {
        assert_eq!(memory.step(said, second(at)), Step::Create);
        memory.sent(said, name.into(), second(at));
    }
    let (name, count) = ("web.1".to_owned(), 2);
    assert_eq!(memory.step(&good, second(2)), Step::Repeat { name, count });
    memory.sent(&good, "web.1".into(), second(2));
    assert_eq!(memory.step(&good, second(3)), Step::Count, "nothing came between");
    let repeated = (4..4000).filter(|at| {
        let said = [&good, &bad][at % 2];
        memory.step(said, start + Duration::from_millis(*at as u64)) != Step::Count
    });
    assert!(
        repeated.count() <= BURST as usize,
        "a flapping object has its budget"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_note_is_a_new_event() {
    let (mut memory, now) = (Memory::default(), Instant::now());
    memory.step(&key("1", "line 3"), now);
    memory.sent(&key("1", "line 3"), "web.1".into(), now);
    assert_eq!(memory.step(&key("1", "line 4"), now), Step::Create);
}

#[tokio::test(start_paused = true)]
async fn one_that_could_not_be_sent_is_tried_again() {
    let (mut memory, now) = (Memory::default(), Instant::now());
    assert_eq!(memory.step(&key("1", "no"), now), Step::Create);
    assert_eq!(memory.step(&key("1", "no"), now), Step::Create);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_says_too_much_is_cut_off_and_others_are_not() {
    let (mut memory, now) = (Memory::default(), Instant::now());
    let created = (0..100)
        .filter(|n| memory.step(&key("1", &n.to_string()), now) == Step::Create)
        .count();
    assert_eq!(created, 25);
    assert_eq!(memory.step(&key("1", "more"), now), Step::Drop);
    assert_eq!(memory.step(&key("2", "hello"), now), Step::Create);
    let seldom = Key {
        reason: "Elected".to_owned(),
        ..key("1", "more")
    };
    assert_eq!(memory.step(&seldom, now), Step::Create, "another reason");
    assert_eq!(memory.step(&key("1", "later"), now + REFILL), Step::Create);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_forgets_and_nothing_new_is_dropped_for_want_of_it() {
    let (mut memory, now) = (Memory::default(), Instant::now());
    for n in 0..LIMIT + 100 {
        assert_eq!(
            memory.step(&key(&n.to_string(), "no"), now),
            Step::Create,
            "object {n}"
        );
    }
    assert_eq!((memory.said.len(), memory.budgets.len()), (LIMIT, LIMIT));
    memory.forget(now + FORGET);
    assert!(memory.said.is_empty() && memory.budgets.is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_a_full_memory_the_longest_silent_is_forgotten() {
    let (mut memory, start) = (Memory::default(), Instant::now());
    let name = |n: usize| key(&n.to_string(), "no");
    let at = |n: usize| start + Duration::from_millis(n as u64);
    for n in 0..LIMIT {
        memory.step(&name(n), at(n));
        memory.sent(&name(n), format!("web.{n}"), at(n));
    }
    assert_eq!(memory.step(&name(0), at(LIMIT)), Step::Count);
    assert_eq!(memory.step(&name(LIMIT), at(LIMIT)), Step::Create);
    assert_eq!(memory.step(&name(0), at(LIMIT)), Step::Count, "said again lately");
    assert_eq!(memory.step(&name(2), at(LIMIT)), Step::Count, "not the oldest");
    assert_eq!(memory.step(&name(1), at(LIMIT)), Step::Create, "forgotten");
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_off_is_logged_once_a_minute_and_what_is_repeated_is_not() {
    let answer = |_: http::Request<kube::client::Body>| {
        std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(
            http_body_util::Full::new(bytes::Bytes::from("{\"metadata\": {}}")),
        )))
    };
    let client = Client::new(tower::service_fn(answer), "ns");
    let events = Events::new(client, "test", "test", Clock::system());
    let mut object = k8s_openapi::api::core::v1::ConfigMap::default();
    object.metadata.name = Some("web".into());
    let log = Captured::begin();
    let say = async |note: &str| {
        let type_ = EventType::Warning;
        events.publish(&object, type_, "Failed", "Reconcile", note).await;
    };
    for _ in 0..100 {
        say("the same").await;
    }
    assert_eq!(log.lines_with("WARN"), [""; 0]);
    for n in 0..100 {
        say(&n.to_string()).await;
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    say("spends what was refilled").await;
    say("too much").await;
    let lines = log.lines_with("too many new events");
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, dropped) in lines.iter().zip(["dropped=1", "dropped=76"]) {
        assert!(line.contains("WARN") && line.ends_with(dropped), "{line}");
        assert!(line.contains("name=\"web\"") && line.contains("Failed"), "{line}");
    }
}

#[test]
fn a_long_note_is_cut_between_characters() {
    let note = "ä".repeat(600);
    assert_eq!(shorten(&note).len(), 1024);
    assert_eq!(shorten("short"), "short");
    let odd = format!("x{note}");
    assert_eq!(shorten(&odd).len(), 1023);
}
