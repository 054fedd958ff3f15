# From outside: start, stop and look at the cluster.
# shellcheck shell=bash

FIRST_PORT=16443

# The cluster's outermost process. Its start time tells it from a later process with the same id.
running() {
  local pid born
  [[ -e $STATE/pid ]] || return 1
  read -r pid born <"$STATE/pid"
  [[ -n $born && $(started "$pid") == "$born" ]]
}

# started PID: its start time, or nothing when it is no more (a zombie only waits for its parent).
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" {print $20}'; }

stopped() { ! running; }

# The process that is number 1 inside the cluster's namespaces.
inner_pid() {
  local pid _
  read -r pid _ <"$STATE/pid"
  ps -o pid= --ppid "$pid" | head -n 1 | tr -d ' '
}

ready() { [[ -e $STATE/ready ]] && running; }

need_running() { ready || die "cluster '$CLUSTER_NAME' is not up; start it with 'hack/cluster/cluster up'"; }

up() {
  local start
  start=$(now_ms)
  check_namespaces
  images
  # Of two calls at once the second one waits here and finds the cluster up.
  exec 9>"$CACHE/.$CLUSTER_NAME.lock"
  flock 9
  if ready; then
    say "Cluster '$CLUSTER_NAME' is already up"
    return 0
  fi
  [[ ! -e $STATE ]] || down >/dev/null
  check_disk
  say "Starting cluster '$CLUSTER_NAME'"
  mkdir -m 700 "$STATE" || die "cannot make the state folder $STATE"
  # Whatever goes wrong from here on, nothing is left behind.
  trap 'give_up' EXIT
  trap 'exit 130' HUP INT TERM
  mkdir "$STATE/logs"
  free_port >"$STATE/port"
  stage "certificates" make_pki "$(<"$STATE/port")"
  launch
  follow_boot
  await 10 "the API server to answer on 127.0.0.1:$(<"$STATE/port")" \
    "$(bin_folder)/kubectl" --kubeconfig "$STATE/kubeconfig" --request-timeout=5s get --raw /readyz
  trap - EXIT HUP INT TERM
  say "Cluster '$CLUSTER_NAME' is up after $(seconds_since "$start") s. Use it with: eval \"\$(hack/cluster/cluster env)\""
}

# launch: the first process of the cluster, in namespaces of its own and outliving the calling shell.
launch() {
  : >"$STATE/boot.log"
  READ_ALONG=$READ_ALONG setsid unshare --mount --propagation slave --pid --mount-proc --uts --fork --kill-child \
    "$HERE/cluster" __mounts </dev/null >"$STATE/logs/launch.log" 2>&1 9>&- &
  printf '%s %s\n' "$!" "$(started "$!")" >"$STATE/pid"
  disown
}

# follow_boot: shows what the cluster's first process writes until it is ready or gone.
follow_boot() {
  exec 7<"$STATE/boot.log"
  while running && [[ ! -e $STATE/ready ]]; do
    cat <&7
    sleep 0.1
  done
  cat <&7
  exec 7<&-
  ! ready || return 0
  cat "$STATE/logs/launch.log" >&2
  die "cluster '$CLUSTER_NAME' did not come up; all logs are kept in $CACHE/failed-$CLUSTER_NAME"
}

give_up() {
  rm -rf "$CACHE/failed-$CLUSTER_NAME"
  cp -r "$STATE/logs" "$CACHE/failed-$CLUSTER_NAME" 2>/dev/null || true
  down >/dev/null
}

free_port() {
  local port
  for ((port = FIRST_PORT; port < FIRST_PORT + 100; port++)); do
    (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return 0; }
  done
  die "no free port from $FIRST_PORT to $((port - 1)) on 127.0.0.1"
}

# down: one signal takes all processes with their namespaces, and these take mounts and links.
down() {
  [[ -e $STATE ]] || { say "Cluster '$CLUSTER_NAME' is not up"; return 0; }
  local inner outer _
  if running; then
    # Killing the inner one lets the outer one end by itself, with nobody left to be waited for.
    inner=$(inner_pid)
    read -r outer _ <"$STATE/pid"
    kill -KILL "${inner:-$outer}"
    await 30 "the cluster's processes to end" stopped
  fi
  remove_cgroups
  ! grep -q " $STATE/" /proc/mounts || die "something is still mounted below $STATE; see /proc/mounts"
  rm -rf "$STATE"
  say "Cluster '$CLUSTER_NAME' is down"
}

status() {
  if ! ready; then
    say "Cluster '$CLUSTER_NAME' is not up"
    [[ ! -e $STATE/failed ]] || tail -n 20 "$STATE/boot.log"
    return 1
  fi
  local pid _
  read -r pid _ <"$STATE/pid"
  say "Cluster '$CLUSTER_NAME' is up since $(ps -o lstart= -p "$pid")"
  say "API         https://127.0.0.1:$(<"$STATE/port")  (kubeconfig $STATE/kubeconfig)"
  say "Registry    $REGISTRY inside the cluster's network: $(in_network curl -fsS "http://$REGISTRY/v2/_catalog" | jq -r '.repositories | join(" ")')"
  say "Memory      $(cgroup_memory)"
  say "Logs        $STATE/logs"
  "$(bin_folder)/kubectl" --kubeconfig "$STATE/kubeconfig" --request-timeout=10s get nodes,pods --all-namespaces
}
