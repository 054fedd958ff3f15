//! `nginx.conf`: pure, and the same bytes for the same proxy.
//!
//! What depends on the pod (worker count, resolver, ports, scratch folders) is not here: the agent in each pod writes it into the
//! files that this one includes without a path: `main.conf`, `http.conf`, `listen.conf`, `listen_tls.conf`. It also copies the
//! certificate to `tls.crt` and `tls.key` beside them, and defines `$drain_flag`.
//!
//! * **Host names are resolved while serving**, because `proxy_pass` takes a variable: an upstream whose name does not resolve
//!   answers 502 on its own routes and never keeps nginx from starting. `split_clients` spreads requests by weight.
//! * **Draining**: while the flag file exists, a request is handed by an internal 418 to a twin of its location that differs in
//!   `keepalive_timeout 0`, so its answer carries `Connection: close` and the client opens its next connection elsewhere.
//!   nginx takes no variable for a keep-alive timeout; hence the twins.
//! * **Passing over a server**: a server that cannot be reached answers 502 or 504 inside nginx, which leads to the next server
//!   of the upstream, once. A request that may have had an effect (POST, LOCK, PATCH already sent) is not sent twice.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use crate::api::my_proxy::{Address, ValidProxy, ValidRoute, ValidServer, ValidUpstream};

/// The part that is the same for all proxies. Header names and values are nginx's own variables; nothing of the author's is in it.
const COMMON: &str = r#"  server_tokens off;
  default_type application/octet-stream;
  sendfile on;
  tcp_nodelay on;
  keepalive_timeout 75s;
  client_header_timeout 60s;
  client_body_timeout 60s;
  send_timeout 60s;
  client_max_body_size 64m;
  server_names_hash_bucket_size 512;
  server_names_hash_max_size 4096;
  variables_hash_bucket_size 256;
  variables_hash_max_size 4096;
  map_hash_bucket_size 512;

  log_format json escape=json '{"time":"$time_iso8601","client":"$remote_addr","request_id":"$forward_request_id",'
    '"method":"$request_method","host":"$host","uri":"$request_uri","status":$status,"bytes":$body_bytes_sent,'
    '"seconds":$request_time,"upstream":"$upstream_addr","upstream_status":"$upstream_status","agent":"$http_user_agent"}';
  access_log /dev/stdout json;

  map $http_host $forward_host { "" $host; default $http_host; }
  map $http_x_request_id $forward_request_id { "" $request_id; default $http_x_request_id; }
  # The Service's ports, which are the ones that clients know.
  map $scheme $forward_port { default 80; https 443; }
  map $http_upgrade $forward_connection { "" close; default upgrade; }
  # A request with an effect goes to a second server only if not a byte of it went to the first.
  map "$request_method $upstream_bytes_sent" $sent_with_effect { "~^(POST|LOCK|PATCH) .*[1-9]" 1; default ""; }

  proxy_http_version 1.1;
  proxy_set_header Host $forward_host;
  proxy_set_header X-Real-IP $remote_addr;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Proto $scheme;
  proxy_set_header X-Forwarded-Host $forward_host;
  proxy_set_header X-Forwarded-Port $forward_port;
  proxy_set_header X-Request-ID $forward_request_id;
  proxy_set_header Upgrade $http_upgrade;
  proxy_set_header Connection $forward_connection;
  proxy_connect_timeout 5s;
  proxy_send_timeout 60s;
  proxy_read_timeout 60s;
  proxy_next_upstream error timeout;
  proxy_next_upstream_tries 3;
  proxy_next_upstream_timeout 10s;
  recursive_error_pages on;
"#;

/// The modern profile that clients of the last ten years speak.
const TLS: &str = r#"
  ssl_certificate tls.crt;
  ssl_certificate_key tls.key;
  ssl_protocols TLSv1.2 TLSv1.3;
  ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305;
  ssl_prefer_server_ciphers off;
  ssl_session_cache shared:tls:10m;
  ssl_session_timeout 1d;
  ssl_session_tickets off;
"#;

/// Renders the configuration. `cluster_domain` completes the names of Services, for example `cluster.local`.
pub fn render(proxy: &ValidProxy, cluster_domain: &str) -> String {
    let mut out = format!(
        "# MyProxy {}/{}. Written by Roadstead; a change made here does not last.\n\
         include main.conf;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n{COMMON}  include http.conf;\n",
        proxy.namespace, proxy.name
    );
    if proxy.tls_secret.is_some() {
        out.push_str(TLS);
    }
    for upstream in &proxy.upstreams {
        out.push_str(&balance(upstream, &proxy.namespace, cluster_domain));
    }
    for (host, routes) in by_host(&proxy.routes) {
        out.push_str(&server(proxy, host, &routes));
    }
    out.push_str("}\n");
    out
}

/// Routes by host, those without a host first: nginx answers a host that no `server_name` names with the first server. That one
/// is there even if it is empty.
fn by_host(routes: &[ValidRoute]) -> BTreeMap<Option<&str>, Vec<&ValidRoute>> {
    let mut hosts = BTreeMap::from([(None, Vec::new())]);
    for route in routes {
        hosts.entry(route.host.as_deref()).or_default().push(route);
    }
    hosts
}

/// `$to_NAME`, a server chosen by weight, and, where there are several, `$next_NAME`, the one to turn to if that one fails.
fn balance(upstream: &ValidUpstream, namespace: &str, cluster_domain: &str) -> String {
    let variable = variable(upstream);
    let servers: Vec<_> = upstream
        .servers
        .iter()
        .map(|server| authority(server, namespace, cluster_domain))
        .collect();
    let total: u32 = upstream.servers.iter().map(|server| server.weight).sum();
    let mut out = format!("\n  split_clients $request_id $to_{variable} {{");
    for (i, (server, authority)) in upstream.servers.iter().zip(&servers).enumerate() {
        if i + 1 == servers.len() {
            let _ = write!(out, " * \"{authority}\";");
        } else {
            // nginx takes at most two digits after the point.
            let hundredths = u64::from(server.weight) * 10_000 / u64::from(total.max(1));
            let _ = write!(
                out,
                " {}.{:02}% \"{authority}\";",
                hundredths / 100,
                hundredths % 100
            );
        }
    }
    out.push_str(" }\n");
    if servers.len() > 1 {
        let _ = write!(out, "  map $to_{variable} $next_{variable} {{");
        let mut seen = std::collections::BTreeSet::new();
        for (this, next) in servers.iter().zip(servers.iter().cycle().skip(1)) {
            // A server that is listed twice has one successor.
            if seen.insert(this) {
                let _ = write!(out, " \"{this}\" \"{next}\";");
            }
        }
        out.push_str(" }\n");
    }
    out
}

fn variable(upstream: &ValidUpstream) -> String {
    upstream.name.replace('-', "_")
}

/// `host:port` as `proxy_pass` takes it. A name without a dot is a Service beside the proxy, and one that ends in `.svc` lacks
/// the cluster's domain: nginx's resolver knows no search list.
fn authority(server: &ValidServer, namespace: &str, cluster_domain: &str) -> String {
    let port = server.port;
    match &server.address {
        Address::Ip(IpAddr::V4(ip)) => format!("{ip}:{port}"),
        Address::Ip(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        Address::Name(name) if !name.contains('.') && name != "localhost" => {
            format!("{name}.{namespace}.svc.{cluster_domain}:{port}")
        }
        Address::Name(name) if name.ends_with(".svc") => format!("{name}.{cluster_domain}:{port}"),
        Address::Name(name) => format!("{name}:{port}"),
    }
}

fn server(proxy: &ValidProxy, host: Option<&str>, routes: &[&ValidRoute]) -> String {
    let mut out = String::from("\n  server {\n    include listen.conf;\n");
    if proxy.tls_secret.is_some() {
        out.push_str("    include listen_tls.conf;\n");
    }
    let _ = writeln!(out, "    server_name {};", host.unwrap_or("_"));
    for route in routes {
        if let Some(upstream) = proxy
            .upstreams
            .iter()
            .find(|upstream| upstream.name == route.upstream)
        {
            out.push_str(&locations(&route.path, upstream));
        }
    }
    for upstream in &proxy.upstreams {
        if routes.iter().any(|route| route.upstream == upstream.name) {
            out.push_str(&named_locations(upstream));
        }
    }
    if !routes.iter().any(|route| route.path == "/") {
        out.push_str(&no_route(proxy));
    }
    out.push_str("  }\n");
    out
}

/// nginx's prefixes end anywhere; a route's end with a segment. So `/api` becomes the exact `/api` and the prefix `/api/`.
fn locations(path: &str, upstream: &ValidUpstream) -> String {
    let name = variable(upstream);
    let next = passes_over(upstream);
    let body = format!(
        "{{ if (-f $drain_flag) {{ return 418; }} error_page 418 = @drain_{name}; {next}proxy_pass http://$to_{name}; }}\n"
    );
    match path {
        "/" => format!("    location / {body}"),
        path => format!("    location = {path} {body}    location {path}/ {body}"),
    }
}

fn named_locations(upstream: &ValidUpstream) -> String {
    let name = variable(upstream);
    let next = passes_over(upstream);
    let mut out = format!(
        "    location @drain_{name} {{ keepalive_timeout 0; {next}proxy_pass http://$to_{name}; }}\n"
    );
    if !next.is_empty() {
        let _ = writeln!(
            out,
            "    location @next_{name} {{ if ($sent_with_effect) {{ return 502; }} proxy_pass http://$next_{name}; }}"
        );
    }
    out
}

fn passes_over(upstream: &ValidUpstream) -> String {
    if upstream.servers.len() > 1 {
        format!("error_page 502 504 = @next_{}; ", variable(upstream))
    } else {
        String::new()
    }
}

fn no_route(proxy: &ValidProxy) -> String {
    let text = if proxy.routes.is_empty() {
        format!("MyProxy {} has no routes.", proxy.name)
    } else {
        format!("No route of MyProxy {} takes this request.", proxy.name)
    };
    let answer = format!("default_type text/plain; return 404 \"{text}\\n\";");
    format!(
        "    location / {{ if (-f $drain_flag) {{ return 418; }} error_page 418 = @drain; {answer} }}\n    \
         location @drain {{ keepalive_timeout 0; {answer} }}\n"
    )
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
