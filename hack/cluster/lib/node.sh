# Inside the cluster's namespaces: what the first process of the cluster does, step by step.
# shellcheck shell=bash

# What the node's programs write under fixed names goes to the cluster's own folders, laid over these.
COVERED_FOLDERS=(/run /var/log /var/lib/kubelet /var/lib/cni)

# node_mounts: runs first, still in the host's network, so that the outer door can listen there.
node_mounts() {
  local folder
  # Containers need shared mounts; nothing goes back to the host, for the namespace is its slave.
  mount --make-rshared /
  # Two of the folders are rarely there. They are made in a layer over /var/lib: had they been made on the host,
  # removing them when one cluster stops would take them from under another.
  mkdir -p "$STATE/node/layer" "$STATE/node/work"
  mount -t overlay overlay -o "lowerdir=/var/lib,upperdir=$STATE/node/layer,workdir=$STATE/node/work" /var/lib
  for folder in "${COVERED_FOLDERS[@]}"; do
    mkdir -p "$folder" "$STATE/node$folder"
    mount --bind "$STATE/node$folder" "$folder"
  done
  keep_kernel_settings
  hostname "$CLUSTER_NAME"
  socat "TCP-LISTEN:$(<"$STATE/port"),bind=127.0.0.1,fork,reuseaddr" "UNIX-CONNECT:$STATE/api.sock" \
    >"$STATE/logs/outer-door.log" 2>&1 </dev/null &
  exec unshare --net "$HERE/cluster" __node
}

# The kubelet writes these settings of the whole host's kernel unless they read as it wants them.
keep_kernel_settings() {
  local setting
  for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    mkdir -p "$STATE/node/sysctl/$(dirname "$setting")"
    echo "${setting#*=}" >"$STATE/node/sysctl/${setting%=*}"
    mount --bind "$STATE/node/sysctl/${setting%=*}" "/proc/sys/${setting%=*}"
  done
}

# node_main: the first process of the cluster. It ends, and everything with it, when any component does.
node_main() {
  exec >>"$STATE/boot.log" 2>&1
  without_proxies
  BIN=$(bin_folder)
  KUBECONFIG=$STATE/kubeconfig-inside
  KUBECACHEDIR=$STATE/kubectl-cache
  export KUBECONFIG KUBECACHEDIR
  trap 'guilty_log; touch "$STATE/failed"' EXIT
  enter_cgroup
  stage "network" node_network
  stage "configuration" write_configuration
  start_registry
  start_containerd
  start_etcd
  start_apiserver
  start_inner_door
  # The images go to the registry while the API server starts, which is idle waiting for the most part.
  push_base_images &
  local images=$!
  stage "API server" await_component 60 kube-apiserver "the API server to be ready" kubectl_quiet get --raw /readyz
  start_controller_manager
  start_scheduler
  start_proxy
  start_kubelet
  start_dns
  stage "CoreDNS and volumes" add_addons
  start_provisioner
  stage "images in the registry" wait_for_images "$images"
  stage "node" await_component 60 kubelet "the node to be Ready" node_ready
  [[ ${CLUSTER_OLM:-1} != 1 ]] || add_olm
  touch "$STATE/ready"
  watch_components
}

node_network() {
  ip link set lo up
  # A bridge, because a kernel made for virtual machines may lack dummy links. The route leads nowhere,
  # but programs take the address of the default route for the node's.
  ip link add node0 type bridge
  ip addr add "$NODE_IP/24" dev node0
  ip link set node0 up
  ip route add default dev node0
  echo 1 >/proc/sys/net/ipv4/ip_forward
  # Pods reach a ClusterIP through the bridge only when bridged packets pass the firewall's rules.
  [[ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ]] || echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
}

write_configuration() {
  local file
  mkdir -p "$STATE/etc/cni" "$STATE/volumes"
  for file in containerd.toml kubelet.yaml kube-proxy.yaml Corefile registry.yml audit-policy.yaml local-path.json local-path-helper.yaml; do
    render "$file" >"$STATE/etc/$file"
  done
  render cni.conflist >"$STATE/etc/cni/10-pods.conflist"
  printf 'nameserver %s\n' "$NODE_IP" >"$STATE/etc/resolv.conf"
}

push_base_images() {
  local name
  await 30 "the registry" curl -fsS "http://$REGISTRY/v2/"
  for name in pause olm volume-helper opm nginx $(image_names); do
    [[ ! -e $STATE/pushed/$name ]] || continue
    push_archive "$(image_archive "$name")" "$REGISTRY/$name:latest"
    mkdir -p "$STATE/pushed" && touch "$STATE/pushed/$name"
  done
}

wait_for_images() { wait "$1" || die "the images could not be pushed to the registry"; }

add_addons() { "$BIN/kubectl" --request-timeout=10s create -f "$HERE/config/addons.yaml" >/dev/null; }

node_ready() {
  [[ $(kubectl_quiet get node "$CLUSTER_NAME" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') == True ]]
}

kubectl_quiet() { "$BIN/kubectl" --request-timeout=5s "$@"; }

# await_component SECONDS NAME WHAT COMMAND...: like await, but gives up at once when a component has
# died. NAME is the component to blame when only the time has passed.
await_component() {
  local limit=$1 name=$2 what=$3
  shift 3
  await "$limit" "$what" while_all_live "$@" && return 0
  [[ -e $STATE/guilty ]] || echo "$name" >"$STATE/guilty"
  return 1
}

while_all_live() {
  local pid
  for pid in "${!COMPONENTS[@]}"; do
    [[ -d /proc/$pid ]] && continue
    echo "${COMPONENTS[$pid]}" >"$STATE/guilty"
    echo "${COMPONENTS[$pid]} ended"
    return "$HOPELESS"
  done
  "$@"
}

watch_components() {
  local pid status=0
  wait -n -p pid "${!COMPONENTS[@]}" || status=$?
  echo "${COMPONENTS[$pid]}" >"$STATE/guilty"
  warn "${COMPONENTS[$pid]} ended with status $status; the cluster stops"
}

# The end of the log of the component that is to blame, for the person who waits for "cluster up".
guilty_log() {
  local name
  [[ -e $STATE/guilty ]] || return 0
  name=$(<"$STATE/guilty")
  printf '\nThe last lines of %s:\n' "$name"
  tail -n 15 "$STATE/logs/$name.log"
}
