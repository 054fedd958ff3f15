//! The parts of the configuration that depend on the pod and not on the proxy. Pure: what was found out is an argument.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::Options;

/// nginx asks at most this many name servers, as the C library does.
const MAX_NAME_SERVERS: usize = 3;
/// From this version on a connection that just answered is not closed under a client that is about to use it again.
const KEEPALIVE_MIN_TIMEOUT: (u32, u32, u32) = (1, 27, 4);

/// What was found out about the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// CPUs that this container may use.
    pub cpus: usize,
    /// Whether the kernel knows IPv6, so that nginx can listen on it.
    pub ipv6: bool,
    /// Whether the pod has an IPv6 address beyond its own links, so that asking for AAAA records makes sense.
    pub ipv6_routed: bool,
    /// nginx's version.
    pub version: (u32, u32, u32),
}

impl Machine {
    /// Looks at the machine. `version` is what `nginx -v` prints.
    pub fn look(version: &str) -> Self {
        // One line per address: address, index, prefix length, scope (00 is global), flags, device.
        let addresses = std::fs::read_to_string("/proc/net/if_inet6").ok();
        Self {
            // Counts what the cgroup allows, which `worker_processes auto` does not.
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            ipv6: addresses.is_some(),
            ipv6_routed: addresses.is_some_and(|text| text.lines().any(is_global)),
            version: parse_version(version),
        }
    }
}

fn is_global(line: &str) -> bool {
    line.split_whitespace().nth(3) == Some("00")
}

/// `nginx version: nginx/1.22.1` or the like; zeros where there is none, which turns every newer directive off.
fn parse_version(text: &str) -> (u32, u32, u32) {
    let version = text.split_once('/').map_or("", |(_, version)| version);
    let mut parts = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

/// Main-level directives.
pub fn main_conf(options: &Options, machine: &Machine) -> String {
    format!(
        "daemon off;\npid {run}/nginx.pid;\nerror_log stderr warn;\nworker_processes {cpus};\n\
         # A WebSocket may outlive a reload by this long; without a bound, old workers would pile up.\nworker_shutdown_timeout 10m;\n",
        run = options.run.display(),
        cpus = machine.cpus,
    )
}

/// http-level directives: resolver, scratch folders, the drain flag, and the server that answers the agent.
pub fn http_conf(options: &Options, machine: &Machine, resolv_conf: &str, generation: &str) -> String {
    let mut out = String::new();
    let servers = name_servers(resolv_conf);
    if !servers.is_empty() {
        // Cluster DNS answers with 30 s or so, too long for a Service whose pods just moved.
        let ipv6 = if machine.ipv6_routed { "" } else { " ipv6=off" };
        let _ = writeln!(
            out,
            "resolver {} valid=5s{ipv6};\nresolver_timeout 5s;",
            servers.join(" ")
        );
    }
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(out, "{kind}_temp_path {}/{kind};", options.scratch.display());
    }
    if machine.version >= KEEPALIVE_MIN_TIMEOUT {
        out.push_str("keepalive_min_timeout 2s;\n");
    }
    let _ = writeln!(
        out,
        "map $host $drain_flag {{ default \"{}\"; }}",
        options.drain_flag().display()
    );
    let _ = write!(
        out,
        "server {{\n  listen unix:{socket};\n  access_log off;\n  default_type text/plain;\n  \
         location = /generation {{ return 200 \"{generation}\"; }}\n  location = /status {{ stub_status; }}\n}}\n",
        socket = options.socket().display(),
    );
    out
}

/// The `listen` directives of a server on a port.
pub fn listen_conf(port: u16, machine: &Machine, parameters: &str) -> String {
    let mut out = format!("listen {port}{parameters};\n");
    if machine.ipv6 {
        let _ = writeln!(out, "listen [::]:{port}{parameters};");
    }
    out
}

fn name_servers(resolv_conf: &str) -> Vec<String> {
    let lines = resolv_conf.lines().map(str::split_whitespace);
    let servers = lines.filter_map(|mut words| {
        (words.next() == Some("nameserver"))
            .then(|| words.next())
            .flatten()
    });
    // Link-local servers with a zone are left out: nginx has no way to write them.
    servers
        .filter_map(|text| text.parse().ok())
        .take(MAX_NAME_SERVERS)
        .map(|ip| match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("nginx version: nginx/1.22.1", (1, 22, 1))]
    #[case("nginx version: nginx/1.29.0 (Ubuntu)", (1, 29, 0))]
    #[case("something else", (0, 0, 0))]
    fn versions_are_read(#[case] text: &str, #[case] version: (u32, u32, u32)) {
        assert_eq!(parse_version(text), version);
    }

    #[test]
    fn name_servers_are_taken_as_nginx_writes_them() {
        let text = "search a.svc\nnameserver 10.96.0.10\nnameserver fd00::a\nnameserver fe80::1%eth0\nnameserver x\noptions ndots:5\n";
        assert_eq!(name_servers(text), ["10.96.0.10", "[fd00::a]"]);
        assert!(name_servers("").is_empty());
    }

    #[test]
    fn global_addresses_are_told_from_links() {
        assert!(is_global("fd000000000000000000000000000002 02 40 00 80     eth0"));
        assert!(!is_global(
            "fe800000000000000000000000000001 02 40 20 80     eth0"
        ));
    }
}
