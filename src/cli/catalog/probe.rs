//! What OLM runs in the pods of a catalog: `grpc_health_probe -addr=:50051 -rpc-timeout=5s`. It is this program by that name.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::olm::oci::catalog::PROBE;

/// As upstream's program, unless its flags say otherwise: so long for the connection, and again for the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Exit codes of upstream's program, which people may know from a pod's Events.
const USAGE: u8 = 1;
const NO_CONNECTION: u8 = 2;
const NO_ANSWER: u8 = 3;
const NOT_SERVING: u8 = 4;

/// Whether the program was started by this name.
pub(in crate::cli) fn is_meant(program: Option<&OsStr>) -> bool {
    program.and_then(|program| Path::new(program).file_name()) == Some(OsStr::new(PROBE))
}

/// Asks once, and tells by the exit code.
pub(in crate::cli) fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let asked = Asked::read(arguments)
        .map_err(|why| (USAGE, why))
        .and_then(|asked| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| (NO_CONNECTION, error.to_string()))?;
            runtime.block_on(ask(&asked))
        });
    match asked {
        Ok(()) => {
            println!("status: SERVING");
            ExitCode::SUCCESS
        }
        Err((code, why)) => {
            eprintln!("{PROBE}: {why}");
            ExitCode::from(code)
        }
    }
}

/// What is asked, and how long it may take.
#[derive(Debug, PartialEq)]
struct Asked {
    /// HOST:PORT, one after the other until there is a connection.
    addresses: Vec<String>,
    /// Until there is a connection.
    connect: Duration,
    /// Until there is an answer.
    answer: Duration,
}

impl Asked {
    /// Those flags of upstream's program that OLM gives, or may come to give: `-addr=HOST:PORT`, where the host may be left out, and times such as 5s.
    fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut found, mut connect, mut answer) = (None, PATIENCE, PATIENCE);
        for argument in arguments {
            match argument.trim_start_matches('-').split_once('=') {
                Some(("addr", address)) => found = Some(address.to_owned()),
                Some(("connect-timeout", time)) => connect = duration(&argument, time)?,
                Some(("rpc-timeout", time)) => answer = duration(&argument, time)?,
                _ => {
                    return Err(format!(
                        "{argument:?} is not known; accepted are -addr=HOST:PORT, -connect-timeout=TIME and -rpc-timeout=TIME"
                    ));
                }
            }
        }
        let addresses = match found {
            Some(port) if port.starts_with(':') => ["127.0.0.1", "[::1]"]
                .map(|host| format!("{host}{port}"))
                .to_vec(),
            Some(address) => vec![address],
            None => {
                return Err("-addr is missing; accepted is -addr=HOST:PORT, as in -addr=:50051".to_owned());
            }
        };
        Ok(Self {
            addresses,
            connect,
            answer,
        })
    }
}

fn duration(argument: &str, time: &str) -> Result<Duration, String> {
    let read = time.parse::<SignedDuration>().ok();
    let read = read.and_then(|time| Duration::try_from(time).ok());
    read.filter(|time| !time.is_zero())
        .ok_or_else(|| format!("{argument:?} is no time; accepted is one such as 5s or 500ms"))
}

async fn ask(asked: &Asked) -> Result<(), (u8, String)> {
    let Asked {
        addresses,
        connect,
        answer,
    } = asked;
    let (address, channel) = timeout(*connect, connected(addresses, *answer))
        .await
        .unwrap_or_else(|_| Ok(None))?
        .ok_or_else(|| {
            let addresses = addresses.join(" or ");
            let why = format!("no connection to {addresses} within {connect:?}");
            (NO_CONNECTION, why)
        })?;
    let request = HealthCheckRequest {
        service: String::new(),
    };
    let answered = HealthClient::new(channel).check(request).await;
    let answered = answered.map_err(|status| (NO_ANSWER, format!("health of {address}: {status}")))?;
    match answered.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        other => Err((NOT_SERVING, format!("{address} is {}", other.as_str_name()))),
    }
}

/// The first that takes a connection, if one does. On this machine itself whoever does not is told at once.
async fn connected(
    addresses: &[String],
    answer: Duration,
) -> Result<Option<(&String, Channel)>, (u8, String)> {
    for address in addresses {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|_| (USAGE, format!("-addr is {address:?}; accepted is HOST:PORT")))?;
        if let Ok(channel) = endpoint.timeout(answer).connect().await {
            return Ok(Some((address, channel)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&["-addr=:50051"], Ok(("127.0.0.1:50051 [::1]:50051", 1000, 1000)))]
    #[case(&["-addr=:50051", "-rpc-timeout=5s"], Ok(("127.0.0.1:50051 [::1]:50051", 1000, 5000)))]
    #[case(&["--connect-timeout=500ms", "--addr=localhost:1"], Ok(("localhost:1", 500, 1000)))]
    #[case(&[], Err("-addr is missing"))]
    #[case(&["-addr=:1", "-tls"], Err("\"-tls\" is not known"))]
    #[case(&["-addr=:1", "-rpc-timeout=5"], Err("\"-rpc-timeout=5\" is no time"))]
    #[case(&["-addr=:1", "-rpc-timeout=-5s"], Err("is no time"))]
    fn the_flags_that_olm_gives_are_known(
        #[case] arguments: &[&str],
        #[case] expected: Result<(&str, u64, u64), &str>,
    ) {
        let read = Asked::read(arguments.iter().map(|&argument| argument.to_owned()));
        match (read, expected) {
            (Ok(found), Ok((addresses, connect, answer))) => {
                let expected = Asked {
                    addresses: addresses.split(' ').map(str::to_owned).collect(),
                    connect: Duration::from_millis(connect),
                    answer: Duration::from_millis(answer),
                };
                assert_eq!(found, expected);
            }
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_name_decides() {
        assert!(is_meant(Some(OsStr::new("/bin/grpc_health_probe"))));
        assert!(!is_meant(Some(OsStr::new("/bin/roadstead"))) && !is_meant(None));
    }
}
