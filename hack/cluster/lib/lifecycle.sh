# From outside: start, stop and look at the cluster.
# shellcheck shell=bash

FIRST_PORT=16443

# The cluster's outermost process. Its start time tells it from a later process with the same id.
running() {
  local pid born
  [[ -e $STATE/pid ]] || return 1
  read -r pid born <"$STATE/pid"
  [[ $(started "$pid") == "$born" ]]
}

started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# The process that is number 1 inside the cluster's namespaces.
inner_pid() {
  local pid _
  read -r pid _ <"$STATE/pid"
  ps -o pid= --ppid "$pid" | head -n 1 | tr -d ' '
}

need_running() { running && [[ -e $STATE/ready ]] || die "cluster '$CLUSTER_NAME' is not up; start it with 'hack/cluster/cluster up'"; }

up() {
  local start
  start=$(now_ms)
  check_root
  check_names
  check_namespaces
  if running; then
    [[ ! -e $STATE/ready ]] || { say "Cluster '$CLUSTER_NAME' is already up"; return 0; }
    die "cluster '$CLUSTER_NAME' is being started by another call; wait for it or stop it with 'hack/cluster/cluster down'"
  fi
  [[ ! -e $STATE ]] || down >/dev/null
  images
  say "Starting cluster '$CLUSTER_NAME'"
  mkdir -m 700 "$STATE" || die "cannot make the state folder $STATE"
  # Whatever goes wrong from here on, nothing is left behind.
  trap 'give_up' EXIT
  trap 'exit 130' INT TERM
  mkdir "$STATE/logs"
  free_port >"$STATE/port"
  stage "certificates" make_pki "$(<"$STATE/port")"
  launch
  follow_boot
  trap - EXIT INT TERM
  say "Cluster '$CLUSTER_NAME' is up after $(seconds_since "$start") s. Use it with: eval \"\$(hack/cluster/cluster env)\""
}

# launch: the first process of the cluster, in namespaces of its own and outliving the calling shell.
launch() {
  : >"$STATE/boot.log"
  setsid unshare --mount --propagation slave --pid --mount-proc --uts --fork --kill-child \
    "$HERE/cluster" __mounts </dev/null >"$STATE/logs/launch.log" 2>&1 &
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
  [[ -e $STATE/ready ]] && running && return 0
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
  check_root
  check_names
  [[ -e $STATE ]] || { say "Cluster '$CLUSTER_NAME' is not up"; return 0; }
  local pid _
  if running; then
    read -r pid _ <"$STATE/pid"
    kill -KILL "$pid"
  fi
  remove_cgroups
  ! grep -q " $STATE/" /proc/mounts || die "something is still mounted below $STATE; see /proc/mounts"
  rm -rf "$STATE"
  # The cluster made these two when they were missing; one that is empty belonged to nobody else.
  rmdir /var/lib/kubelet /var/lib/cni 2>/dev/null || true
  say "Cluster '$CLUSTER_NAME' is down"
}

status() {
  if ! running || [[ ! -e $STATE/ready ]]; then
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
  "$(bin_folder)/kubectl" --kubeconfig "$STATE/kubeconfig" get nodes,pods --all-namespaces
}
