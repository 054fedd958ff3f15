use proptest::prelude::*;
use rstest::rstest;

use super::*;

const A: &str = "07c37dfeb235213a872192d90877d0cd55635b91";
const B: &str = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1";

fn one(rest: &str) -> Result<Known, ViewError> {
    format!("{A} {rest}").parse::<View>().map(|view| view.myself)
}

#[test]
fn what_redis_7_0_says_is_read() {
    let text = format!(
        "{A} 127.0.0.1:30004@31004,host-4 slave {B} 0 1426238317239 4 connected\n\
         {B} 127.0.0.1:30001@31001, myself,master - 0 0 1 connected 0-5460 10923 [93-<-{A}] [77->-{A}]\n"
    );
    let view: View = text.parse().unwrap();
    let (own, other) = (&view.myself, &view.known[0]);
    assert_eq!(own.slots.to_string(), "0-5460,10923");
    assert_eq!(own.importing[&"93".parse().unwrap()].to_string(), A);
    assert_eq!(own.migrating[&"77".parse().unwrap()].to_string(), A);
    assert_eq!((own.hostname.as_deref(), own.pong_received), (None, None));
    assert!(own.flags.primary && !own.flags.replica && own.primary.is_none());
    assert_eq!(other.hostname.as_deref(), Some("host-4"));
    assert_eq!(other.primary.unwrap().to_string(), B);
    assert_eq!(
        other.pong_received,
        Some(Duration::from_millis(1_426_238_317_239))
    );
    assert_eq!((other.config_epoch, other.port, other.linked), (4, 30004, true));
    assert_eq!(view.of(other.id), Some(other));
    assert_eq!(format!("{:?}", own.id), "67ed2db8");
}

#[rstest]
#[case::redis_7_0("10.0.0.1:6379@16379 myself,master - 0 0 1 connected", Some("10.0.0.1"), None)]
#[case::redis_7_2(
    "10.0.0.1:6379@16379,,tls-port=0,shard-id=69bc080733d1355567173199cff4a6a039a2f024 myself,master - 0 0 1 connected",
    Some("10.0.0.1"),
    None
)]
#[case::valkey_8(
    "10.0.0.1:6379@16379,orders-0.orders,tls-port=0,shard-id=69bc myself,master - 0 0 1 connected",
    Some("10.0.0.1"),
    Some("orders-0.orders")
)]
#[case::ipv6("fd00::1:6379@16379 myself,master - 0 0 1 connected", Some("fd00::1"), None)]
#[case::no_address_yet(":6379@16379 myself,master - 0 0 0 connected", None, None)]
#[case::lost(":0@0 myself,master,fail,noaddr - 0 0 0 disconnected", None, None)]
#[case::a_stale_address("10.0.0.9:6379@16379 myself,master,noaddr - 0 0 0 disconnected", None, None)]
fn addresses_are_read_in_every_shape(
    #[case] line: &str,
    #[case] ip: Option<&str>,
    #[case] hostname: Option<&str>,
) {
    let node = one(line).unwrap();
    assert_eq!(node.ip, ip.map(|ip| ip.parse().unwrap()));
    assert_eq!(node.hostname.as_deref(), hostname);
}

#[test]
fn a_node_in_handshake_is_known_to_nobody_since_its_id_is_made_up() {
    let text = format!(
        "{A} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected\n{B} 10.0.0.2:6379@16379 handshake - 0 0 0 disconnected\n"
    );
    let view: View = text.parse().unwrap();
    assert_eq!(view.known.len(), 1);
    assert_eq!(view.of(view.known[0].id), None);
    let known: Vec<NodeId> = view.by_id().into_keys().collect();
    assert_eq!(known, [view.myself.id]);
}

#[rstest]
#[case("", "an address", "")]
#[case("10.0.0.1:6379 myself", "IP:PORT@BUSPORT", "10.0.0.1:6379")]
#[case("10.0.0:6379@1 myself", "an IP address", "10.0.0")]
#[case("10.0.0.1:66666@1 myself", "a port", "66666")]
#[case("10.0.0.1:1@1 myself,primary", "a flag", "primary")]
#[case("10.0.0.1:1@1 myself 12", "a node id of 40 hexadecimal digits", "12")]
#[case("10.0.0.1:1@1 myself - 0 x", "the time of a pong in ms", "x")]
#[case("10.0.0.1:1@1 myself - 0 0 1 linked", "connected or disconnected", "linked")]
#[case(
    "10.0.0.1:1@1 myself - 0 0 1 connected 1-16384",
    "a slot or a range of slots",
    "1-16384"
)]
#[case(
    "10.0.0.1:1@1 myself - 0 0 1 connected [1->-]",
    "a node id of 40 hexadecimal digits",
    ""
)]
#[case(
    "10.0.0.1:1@1 myself - 0 0 1 connected [1]",
    "[SLOT->-ID] or [SLOT-<-ID]",
    "1]"
)]
fn an_error_names_the_line_and_what_was_expected(
    #[case] rest: &str,
    #[case] what: &'static str,
    #[case] found: &str,
) {
    let found = found.to_owned();
    let (line, expected) = (1, what);
    assert_eq!(
        one(rest),
        Err(ViewError::Unexpected {
            line,
            expected,
            found
        })
    );
}

#[test]
fn exactly_one_line_is_the_node_itself() {
    let line = format!("{A} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected\n");
    assert_eq!(line.repeat(2).parse::<View>(), Err(ViewError::Twice { line: 2 }));
    assert_eq!(
        line.replace("myself,", "").parse::<View>(),
        Err(ViewError::NoMyself)
    );
    assert_eq!("".parse::<View>(), Err(ViewError::NoMyself));
}

proptest! {
    #[test]
    fn no_answer_makes_the_parser_panic(text in "\\PC{0,200}") {
        let _ = text.parse::<View>();
    }

    /// Lines that are nearly right reach further than noise does.
    #[test]
    fn no_nearly_right_answer_makes_the_parser_panic(
        words in prop::collection::vec(prop_oneof![
            Just(A.to_owned()), Just("10.0.0.1:6379@16379,h,a=b".to_owned()), Just("myself,master".to_owned()),
            Just("-".to_owned()), Just("0".to_owned()), Just("connected".to_owned()), Just("[1->-".to_owned()),
            "[0-9\\[\\]<>:@,-]{0,8}", "\\PC{0,4}",
        ], 0..14)
    ) {
        let _ = words.join(" ").parse::<View>();
        let head = format!("{A} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected ");
        let _ = (head + &words.join(" ")).parse::<View>();
    }

    #[test]
    fn an_id_that_is_written_is_read_again(id in any::<[u8; 20]>()) {
        prop_assert_eq!(NodeId(id).to_string().parse::<NodeId>(), Ok(NodeId(id)));
    }
}
