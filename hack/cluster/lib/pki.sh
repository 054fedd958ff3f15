# Certificates and kubeconfig files: one authority for the cluster, one for the aggregation layer.
# shellcheck shell=bash

PKI=$STATE/pki

make_pki() {
  mkdir -p "$PKI"
  # Without a configuration of its own openssl would take the machine's and mark every certificate as an authority's.
  printf '[req]\ndistinguished_name = name\n[name]\n' >"$PKI/openssl.cnf"
  authority ca "roadstead local cluster"
  authority front-proxy-ca "roadstead local cluster front proxy"
  openssl ecparam -name prime256v1 -genkey -noout -out "$PKI/service-accounts.key"
  openssl ec -in "$PKI/service-accounts.key" -pubout -out "$PKI/service-accounts.pub" 2>/dev/null

  local names="DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
  names+=",DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:$NODE_IP,IP:$API_SERVICE_IP"
  certificate ca apiserver "/CN=kube-apiserver" "$names"
  certificate ca kubelet-server "/CN=system:node:$CLUSTER_NAME/O=system:nodes" "DNS:$CLUSTER_NAME,IP:$NODE_IP"
  certificate ca apiserver-to-kubelet "/CN=kube-apiserver-kubelet-client/O=system:masters"
  certificate front-proxy-ca front-proxy "/CN=front-proxy-client"

  client admin "/CN=admin/O=system:masters"
  client kubelet "/CN=system:node:$CLUSTER_NAME/O=system:nodes"
  client kube-controller-manager "/CN=system:kube-controller-manager"
  client kube-scheduler "/CN=system:kube-scheduler"
  client kube-proxy "/CN=system:kube-proxy"
  client coredns "/CN=system:coredns"
  client local-path-provisioner "/CN=local-path-provisioner"

  cp "$PKI/admin.kubeconfig" "$STATE/kubeconfig-inside"
  kubeconfig admin "https://127.0.0.1:$1" >"$STATE/kubeconfig"
}

# authority NAME COMMON_NAME
authority() {
  new_certificate "$1" -subj "/CN=$2" -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign,cRLSign
}

# certificate AUTHORITY NAME SUBJECT [ALTERNATIVE_NAMES]: good for servers and clients alike.
certificate() {
  # shellcheck disable=SC2054 # the commas belong to openssl
  local extensions=(-addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=serverAuth,clientAuth)
  [[ -z ${4:-} ]] || extensions+=(-addext "subjectAltName=$4")
  new_certificate "$2" -CA "$PKI/$1.crt" -CAkey "$PKI/$1.key" -subj "$3" "${extensions[@]}"
}

new_certificate() {
  local name=$1
  shift
  openssl req -x509 -config "$PKI/openssl.cnf" -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -days 365 -keyout "$PKI/$name.key" -out "$PKI/$name.crt" "$@" 2>"$PKI/openssl.log" ||
    die "openssl could not make the certificate '$name': $(tail -n 1 "$PKI/openssl.log")"
}

# client NAME SUBJECT: a certificate and a kubeconfig for use inside the cluster's network namespace.
client() {
  certificate ca "$1" "$2"
  kubeconfig "$1" "https://$NODE_IP:6443" >"$PKI/$1.kubeconfig"
}

kubeconfig() {
  local user=$1 server=$2
  cat <<KUBECONFIG
apiVersion: v1
kind: Config
current-context: $CLUSTER_NAME
clusters:
  - name: $CLUSTER_NAME
    cluster:
      server: $server
      certificate-authority-data: $(base64 -w0 "$PKI/ca.crt")
users:
  - name: $user
    user:
      client-certificate-data: $(base64 -w0 "$PKI/$user.crt")
      client-key-data: $(base64 -w0 "$PKI/$user.key")
contexts:
  - name: $CLUSTER_NAME
    context: {cluster: $CLUSTER_NAME, user: $user}
KUBECONFIG
}
