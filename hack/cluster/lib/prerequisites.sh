# What a bare machine must have, named one by one with its remedy; Debian packages are installed.
# shellcheck shell=bash

# Package and a file of it: the file says faster than dpkg whether the package is there, and it also
# answers on a machine where the program came another way.
DEBIAN_PACKAGES=(
  "containerd /usr/bin/containerd"
  "runc /usr/sbin/runc"
  "etcd-server /usr/bin/etcd"
  "containernetworking-plugins /usr/lib/cni/bridge"
  "nftables /usr/sbin/nft"
  "iptables /usr/sbin/iptables"
  "conntrack /usr/sbin/conntrack"
  "socat /usr/bin/socat"
  "buildah /usr/bin/buildah"
  "skopeo /usr/bin/skopeo"
  "mmdebstrap /usr/bin/mmdebstrap"
  "docker-registry /usr/bin/docker-registry"
  "busybox-static /bin/busybox"
  "gcc /usr/bin/gcc"
  "libc6-dev /usr/lib/x86_64-linux-gnu/libc.a"
  "openssl /usr/bin/openssl"
  "nginx-light /usr/sbin/nginx"
  "postgresql-15 /usr/lib/postgresql/15/bin/postgres"
  "redis-server /usr/bin/redis-server"
  "curl /usr/bin/curl"
  "jq /usr/bin/jq"
  "iproute2 /usr/sbin/ip"
  "util-linux /usr/bin/unshare"
  "procps /usr/bin/ps"
)

check_root() {
  ((EUID == 0)) || die "the local cluster needs root for namespaces and mounts; run it with sudo"
  [[ $(uname -m) == x86_64 ]] || die "the local cluster was made for x86_64, this machine is $(uname -m); use a cluster of your own through KUBECONFIG"
}

check_namespaces() {
  local why
  why=$(unshare --net --mount --pid --uts --fork --kill-child true 2>&1) ||
    die "this machine does not permit new namespaces (${why:-unshare failed}); run as root outside of a confined container, or use a cluster of your own through KUBECONFIG"
}

# What scenarios write comes to lie in the state folder. Where the disk is full, the node takes no pods any more, and every wait ends
# in vain some minutes later with a taint that nobody looks for.
NEEDED_GB=6
check_disk() {
  local free
  free=$(df --output=avail --block-size=1G "${STATE%/*}" | tail -n 1)
  ((free >= NEEDED_GB)) ||
    die "${STATE%/*} has ${free// /} GB of free disk, and a cluster needs $NEEDED_GB: free some (\"make tidy\" removes what was compiled), or set TMPDIR to a folder on another disk"
}

check_go() {
  command -v go >/dev/null ||
    die "Go is missing; install Go $(required_go) or newer (https://go.dev/dl) and put it on PATH"
  local have
  have=$(cd / && GOTOOLCHAIN=local go env GOVERSION)
  [[ $(printf '%s\n' "$(required_go)" "${have#go}" | sort -V | head -n 1) == "$(required_go)" ]] ||
    die "Go ${have#go} is too old for the cluster's programs; install Go $(required_go) or newer (https://go.dev/dl)"
}

required_go() { sed -n 's/^go //p' "$HERE/programs/go.mod"; }

missing_packages() {
  local entry
  for entry in "${DEBIAN_PACKAGES[@]}"; do
    [[ -e ${entry#* } ]] || say "${entry%% *}"
  done
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} > 0)) || return 0
  command -v apt-get >/dev/null ||
    die "these Debian packages are missing and there is no apt-get to install them: ${missing[*]}"
  say "Installing Debian packages: ${missing[*]}"
  mkdir -p "$CACHE"
  without_services without_data apt_install "${missing[@]}" >"$CACHE/apt.log" 2>&1 ||
    die "apt-get could not install ${missing[*]}: $(grep '^E:' "$CACHE/apt.log" | head -n 2) (all of it in $CACHE/apt.log)"
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  # Another apt may be running (a machine that has just started often updates itself).
  local apt=(apt-get -o DPkg::Lock::Timeout=300 -q -y)
  "${apt[@]}" install --no-install-recommends "$@" && return 0
  "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "$@"
}

# without_data COMMAND...: where PostgreSQL is installed for the first time, Debian makes data called main, and a service of it. The tests make
# their own. What is installed later, by somebody else, is as Debian has it.
NO_DATA=/etc/postgresql-common/createcluster.d/roadstead.conf
without_data() {
  local status=0
  [[ ! -e /etc/postgresql-common/createcluster.conf ]] || { "$@"; return; }
  mkdir -p "${NO_DATA%/*}"
  echo "create_main_cluster = false" >"$NO_DATA"
  "$@" || status=$?
  rm -f "$NO_DATA"
  return "$status"
}

# without_services COMMAND...: some of the packages are servers, and the cluster starts its own. Debian's
# policy-rc.d keeps them from being started on the host meanwhile.
without_services() {
  local policy=/usr/sbin/policy-rc.d status=0
  [[ ! -e $policy ]] || { "$@"; return; }
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  # Left behind, it would keep every service of this host from starting. HUP is what a lost connection sends.
  trap 'rm -f /usr/sbin/policy-rc.d "$NO_DATA"; exit 130' HUP INT TERM
  "$@" || status=$?
  trap - HUP INT TERM
  rm -f "$policy"
  return "$status"
}
