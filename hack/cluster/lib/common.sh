# Paths, messages and waiting: what every other file of the local cluster uses.
# shellcheck shell=bash disable=SC2034

CLUSTER_NAME=${CLUSTER_NAME:-roadstead}
STATE=${TMPDIR:-/tmp}
STATE=${STATE%/}/roadstead-cluster-$CLUSTER_NAME
CACHE=${ROADSTEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roadstead}

# Every cluster lives in a network namespace of its own, so all of them can use the same addresses.
NODE_IP=10.90.0.1
SERVICE_CIDR=10.96.0.0/16
API_SERVICE_IP=10.96.0.1
POD_CIDR=10.244.0.0/24
REGISTRY=localhost:5000

# The cluster's network has no way out; a proxy from the caller's environment would only swallow
# requests meant for the cluster.
without_proxies() { unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy; }

say() { printf '%s\n' "$*"; }
warn() { printf 'cluster: %s\n' "$*" >&2; }
die() {
  warn "$*"
  exit 1
}

# now_ms: milliseconds since the epoch.
now_ms() { printf '%s\n' "${EPOCHREALTIME/./}" | sed 's/...$//'; }

# seconds_since MS: the time since MS as "1.2".
seconds_since() {
  local ms=$(($(now_ms) - $1))
  printf '%d.%d' $((ms / 1000)) $((ms % 1000 / 100))
}

# Whether a person reads along at a terminal, yes or no. What the cluster itself prints goes through a file: "up" tells it.
READ_ALONG=${READ_ALONG:-no}
[[ ! -t 1 ]] || READ_ALONG=yes

# stage NAME COMMAND...: runs COMMAND as one step of something longer and prints its name and time.
# The name comes first, so that one sees what is being waited for. A terminal gets the time on the same line; whoever reads
# whole lines, such as a log, gets the name on a line of its own.
# (COMMAND is not run as a condition: that would switch off "set -e" inside of it.)
stage() {
  local name=$1 start
  shift
  start=$(now_ms)
  [[ $READ_ALONG == yes ]] || printf '  %s ...\n' "$name"
  [[ $READ_ALONG == no ]] || printf '  %-44s' "$name"
  "$@"
  [[ $READ_ALONG == yes ]] || printf '  %-44s' "$name"
  printf '%6s s\n' "$(seconds_since "$start")"
}

# await SECONDS WHAT COMMAND...: runs COMMAND until it succeeds. When SECONDS have passed, or COMMAND
# returns HOPELESS, it names WHAT did not happen, shows what COMMAND last printed, and fails.
HOPELESS=86
await() {
  local limit=$1 what=$2 output start status
  shift 2
  start=$(now_ms)
  while true; do
    status=0
    output=$("$@" 2>&1) || status=$?
    ((status != 0)) || return 0
    ((status != HOPELESS && $(now_ms) - start < limit * 1000)) || break
    sleep 0.1
  done
  [[ $READ_ALONG == no ]] || printf '\n'
  warn "waited $(seconds_since "$start") s in vain for $what"
  [[ -z $output ]] || warn "last answer: $(tail -n 3 <<<"$output")"
  return 1
}

# render TEMPLATE: prints a file of config/ with @NAME@ replaced by the shell variable NAME.
render() {
  local text name
  text=$(<"$HERE/config/$1")
  for name in STATE CLUSTER_NAME NODE_IP SERVICE_CIDR API_SERVICE_IP POD_CIDR REGISTRY; do
    text=${text//@$name@/${!name}}
  done
  printf '%s\n' "$text"
}

# hash_of_folder FOLDER: one hash over the names and contents of all files below FOLDER.
hash_of_folder() {
  (cd "$1" && find . -type f | LC_ALL=C sort | xargs -d '\n' sha256sum) | sha256sum | cut -c1-16
}

check_names() {
  [[ $CLUSTER_NAME =~ ^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$ ]] ||
    die "CLUSTER_NAME is '$CLUSTER_NAME'; it must be 1 to 30 lower-case letters, digits and inner dashes"
  # The name of a unix socket holds 108 bytes.
  ((${#STATE} < 90)) ||
    die "the state folder '$STATE' is too long for a unix socket below it; set TMPDIR to a shorter folder"
  # These folders of the host are hidden inside the cluster.
  local folder
  for folder in "$STATE" "$CACHE"; do
    case $folder/ in
    /run/* | /var/run/* | /var/log/* | /var/lib/*)
      die "the folder '$folder' is hidden inside the cluster; set TMPDIR or ROADSTEAD_CACHE to another place"
      ;;
    esac
  done
}
