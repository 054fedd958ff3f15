//! What OLM runs in the pods of a catalog: `grpc_health_probe -addr=:50051`. It is this program by that name.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::olm::oci::catalog::PROBE;

/// As upstream's program: so long for the connection, and again for the answer.
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
    let asked = address(arguments)
        .map_err(|why| (USAGE, why))
        .and_then(|address| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| (NO_CONNECTION, error.to_string()))?;
            runtime.block_on(ask(&address))
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

/// HOST:PORT of `-addr=HOST:PORT`, where the host may be left out. The flags of other things are not known.
fn address(arguments: impl Iterator<Item = String>) -> Result<String, String> {
    let mut found = None;
    for argument in arguments {
        let bare = argument.trim_start_matches('-');
        match bare.strip_prefix("addr=") {
            Some(address) => found = Some(address.to_owned()),
            None => return Err(format!("{argument:?} is not known; accepted is -addr=HOST:PORT")),
        }
    }
    match found {
        Some(address) if address.starts_with(':') => Ok(format!("127.0.0.1{address}")),
        Some(address) => Ok(address),
        None => Err("-addr is missing; accepted is -addr=HOST:PORT, as in -addr=:50051".to_owned()),
    }
}

async fn ask(address: &str) -> Result<(), (u8, String)> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|_| (USAGE, format!("-addr is {address:?}; accepted is HOST:PORT")))?;
    let endpoint = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE);
    let connected = tokio::time::timeout(PATIENCE, endpoint.connect()).await;
    let no_connection = || {
        (
            NO_CONNECTION,
            format!("no connection to {address} within {PATIENCE:?}"),
        )
    };
    let channel = connected
        .map_err(|_| no_connection())?
        .map_err(|_| no_connection())?;
    let request = HealthCheckRequest {
        service: String::new(),
    };
    let answer = HealthClient::new(channel).check(request).await;
    let answer = answer.map_err(|status| (NO_ANSWER, format!("health of {address}: {status}")))?;
    match answer.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        other => Err((NOT_SERVING, format!("{address} is {}", other.as_str_name()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&["-addr=:50051"], Ok("127.0.0.1:50051"))]
    #[case(&["--addr=localhost:1"], Ok("localhost:1"))]
    #[case(&[], Err("-addr is missing"))]
    #[case(&["-addr=:1", "-tls"], Err("\"-tls\" is not known"))]
    fn the_flag_that_olm_gives_is_known(#[case] arguments: &[&str], #[case] expected: Result<&str, &str>) {
        match (
            address(arguments.iter().map(|&argument| argument.to_owned())),
            expected,
        ) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
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
