# What a person and the other tools do with a running cluster.
# shellcheck shell=bash

in_network() { (enter_network "$@"); }

# enter_network COMMAND...: becomes COMMAND with the cluster's network and DNS, but with the caller's
# files, folder and environment.
enter_network() {
  local bin
  bin=$(bin_folder)
  without_proxies
  export KUBECONFIG=$STATE/kubeconfig-inside KUBECACHEDIR=$STATE/kubectl-cache PATH=$bin:$PATH
  # The names of services are known to the cluster's DNS alone. A mount namespace of the command's own
  # keeps the host's resolv.conf as it is.
  # shellcheck disable=SC2016
  exec nsenter --net="/proc/$(inner_pid)/ns/net" unshare --mount --propagation slave \
    sh -c '[ ! -e /etc/resolv.conf ] || mount --bind "$0" /etc/resolv.conf || exit; exec "$@"' \
    "$STATE/etc/resolv.conf" "$@"
}

print_environment() {
  need_running
  say "export KUBECONFIG=$STATE/kubeconfig"
  say "export PATH=$(bin_folder):\$PATH"
}

# push ARCHIVE REF
push() {
  (($# == 2)) || die "usage: cluster push ARCHIVE REF, for example: cluster push dist/operator.tar $REGISTRY/roadstead-operator:v0.1.0"
  need_running
  [[ -e $1 ]] || die "there is no archive '$1'"
  check_ref "$2"
  in_network "$HERE/cluster" __push "$1" "$2"
}

# build CONTEXT DOCKERFILE REF [OPTION...]: builds an image and pushes it; further options go to buildah.
build() {
  (($# >= 3)) || die "usage: cluster build CONTEXT DOCKERFILE REF [BUILDAH-OPTION...]"
  need_running
  check_ref "$3"
  in_network "$HERE/cluster" __build "$@"
}

# The storage is this build's own: another one may run beside it, and what it held is in the registry now.
build_inside() {
  local context=$1 dockerfile=$2 ref=$3 storage
  shift 3
  storage=$(mktemp -d "$STATE/build-XXXXXX")
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$storage'" EXIT
  buildah_in "$storage" bud --isolation chroot --tls-verify=false --layers=false \
    --tag "$ref" --file "$dockerfile" "$@" "$context"
  buildah_in "$storage" push --quiet --tls-verify=false --disable-compression --digestfile "$storage/digest" "$ref" "docker://$ref"
  say "Pushed $ref@$(<"$storage/digest")"
}

check_ref() {
  [[ $1 == "$REGISTRY"/* ]] || die "image '$1' cannot be pushed from here: the cluster's registry is $REGISTRY, so name it $REGISTRY/NAME:TAG"
}

# logs [COMPONENT [TAIL-OPTION...]]
logs() {
  [[ -d $STATE/logs ]] || die "cluster '$CLUSTER_NAME' is not up; the logs of a failed start are in $CACHE/failed-$CLUSTER_NAME"
  if (($# == 0)); then
    say "Components with a log ('cluster logs NAME -f' follows it; pods: kubectl logs):"
    (cd "$STATE/logs" && printf '  %s\n' *.log | sed 's/\.log$//')
    return 0
  fi
  local name=$1
  shift
  [[ -e $STATE/logs/$name.log ]] || die "there is no component '$name'; 'cluster logs' lists them"
  tail -n 200 "$@" "$STATE/logs/$name.log"
}
