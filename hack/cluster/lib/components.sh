# The cluster's processes: how each is started. All of this runs inside the cluster's namespaces.
# shellcheck shell=bash disable=SC2034

declare -A COMPONENTS=() # process id -> name

# run NAME COMMAND...: starts a component in the background, its output in logs/NAME.log.
run() {
  local name=$1
  shift
  "$@" >"$STATE/logs/$name.log" 2>&1 </dev/null &
  COMPONENTS[$!]=$name
}

start_registry() {
  run registry docker-registry serve "$STATE/etc/registry.yml"
}

start_containerd() {
  run containerd containerd --config "$STATE/etc/containerd.toml" --log-level warn
}

# A test cluster does not outlive a crash of its machine: etcd need not wait for the disk.
start_etcd() {
  run etcd etcd --name "$CLUSTER_NAME" --data-dir "$STATE/etcd" --unsafe-no-fsync --logger zap --log-level warn \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster "$CLUSTER_NAME=http://127.0.0.1:2380"
}

start_apiserver() {
  local audit=()
  [[ ${CLUSTER_AUDIT:-} != 1 ]] || audit=(--audit-policy-file="$STATE/etc/audit-policy.yaml"
    --audit-log-path="$STATE/logs/audit.log" --audit-log-maxsize=200 --audit-log-maxbackup=1)
  run kube-apiserver "$BIN/kube-apiserver" \
    --etcd-servers=http://127.0.0.1:2379 \
    --advertise-address="$NODE_IP" --bind-address=0.0.0.0 --secure-port=6443 \
    --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
    --client-ca-file="$PKI/ca.crt" \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --service-cluster-ip-range="$SERVICE_CIDR" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$PKI/service-accounts.pub" \
    --service-account-signing-key-file="$PKI/service-accounts.key" \
    --kubelet-preferred-address-types=InternalIP \
    --kubelet-certificate-authority="$PKI/ca.crt" \
    --kubelet-client-certificate="$PKI/apiserver-to-kubelet.crt" \
    --kubelet-client-key="$PKI/apiserver-to-kubelet.key" \
    --requestheader-client-ca-file="$PKI/front-proxy-ca.crt" \
    --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$PKI/front-proxy.crt" --proxy-client-key-file="$PKI/front-proxy.key" \
    --allow-privileged=true --profiling=false "${audit[@]}"
}

start_controller_manager() {
  run kube-controller-manager "$BIN/kube-controller-manager" \
    --kubeconfig="$PKI/kube-controller-manager.kubeconfig" --leader-elect=false \
    --root-ca-file="$PKI/ca.crt" --service-account-private-key-file="$PKI/service-accounts.key" \
    --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key" \
    --use-service-account-credentials=true --kube-api-qps=200 --kube-api-burst=400 --profiling=false
}

start_scheduler() {
  run kube-scheduler "$BIN/kube-scheduler" --kubeconfig="$PKI/kube-scheduler.kubeconfig" --leader-elect=false --profiling=false
}

start_kubelet() {
  run kubelet "$BIN/kubelet" --config="$STATE/etc/kubelet.yaml" --kubeconfig="$PKI/kubelet.kubeconfig" \
    --node-ip="$NODE_IP" --hostname-override="$CLUSTER_NAME"
}

start_proxy() {
  run kube-proxy "$BIN/kube-proxy" --config="$STATE/etc/kube-proxy.yaml"
}

start_dns() {
  run coredns "$BIN/coredns" -conf "$STATE/etc/Corefile"
}

start_provisioner() {
  run local-path-provisioner "$BIN/local-path-provisioner" start --kubeconfig "$PKI/local-path-provisioner.kubeconfig" \
    --config "$STATE/etc/local-path.json" --namespace local-path-storage --service-account-name local-path-provisioner \
    --helper-image "$REGISTRY/volume-helper:latest" --helper-pod-file "$STATE/etc/local-path-helper.yaml"
}

# The API server's way out: a unix socket, since the network namespace has no other door.
start_inner_door() {
  run door socat "UNIX-LISTEN:$STATE/api.sock,fork,mode=600" "TCP:$NODE_IP:6443"
}
