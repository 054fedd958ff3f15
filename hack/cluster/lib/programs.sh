# The cluster's programs, built from the Go modules that programs/go.mod pins. They are kept in a
# cache folder named after those files, so a second run finds them at once.
# shellcheck shell=bash

KUBERNETES=k8s.io/kubernetes
OLM=github.com/operator-framework/operator-lifecycle-manager

# Name, package (in programs/), and build tags.
PROGRAMS=(
  "kube-apiserver $KUBERNETES/cmd/kube-apiserver"
  "kubectl $KUBERNETES/cmd/kubectl"
  "kube-controller-manager $KUBERNETES/cmd/kube-controller-manager"
  "kube-scheduler $KUBERNETES/cmd/kube-scheduler"
  "kubelet $KUBERNETES/cmd/kubelet"
  "kube-proxy $KUBERNETES/cmd/kube-proxy"
  "local-path-provisioner github.com/rancher/local-path-provisioner"
  "olm $OLM/cmd/olm"
  "catalog $OLM/cmd/catalog"
  "package-server $OLM/cmd/package-server"
  "copy-content $OLM/cmd/copy-content"
  "cpb $OLM/util/cpb"
  "helm helm.sh/helm/v3/cmd/helm"
  "opm github.com/operator-framework/operator-registry/cmd/opm json1,containers_image_openpgp"
  "grpc_health_probe ./grpc_health_probe"
  # CoreDNS needs versions of OpenTelemetry that the others cannot live with: a module of its own.
  "coredns github.com/coredns/coredns"
)

programs_key() { hash_of_folder "$HERE/programs"; }

# The folder that holds the programs of this checkout.
bin_folder() { printf '%s/bin/%s\n' "$CACHE" "$(programs_key)"; }

programs() {
  install_packages
  local bin
  bin=$(bin_folder)
  [[ ! -e $bin/.complete ]] || return 0
  check_go
  mkdir -p "$CACHE/bin"
  # Two calls at once would do the work twice; the second one waits and finds it done.
  exec 8>"$CACHE/bin/.lock"
  flock 8
  if [[ ! -e $bin/.complete ]]; then
    build_programs "$bin"
    touch "$bin/.complete"
  fi
  exec 8>&-
}

# build_programs FOLDER: an interrupted build goes on where it was.
build_programs() {
  local bin=$1 entry name package tags
  mkdir -p "$bin"
  say "Building the cluster's programs (about 10 minutes on 2 cores the first time)"
  for entry in "${PROGRAMS[@]}"; do
    read -r name package tags <<<"$entry"
    [[ -x $bin/$name ]] || stage "$name" build_program "$bin" "$name" "$package" "${tags:-}"
  done
  # Tests that need only an API server look for all they need in one folder.
  ln -sf /usr/bin/etcd "$bin/etcd"
  stage "OLM manifests" render_olm "$bin"
}

build_program() {
  local bin=$1 name=$2 package=$3 tags=$4 folder=$HERE/programs log=$CACHE/bin/build.log flags
  [[ $name != coredns ]] || folder+=/coredns
  flags=$(link_flags)
  # A pipe or -o straight to the final name would leave half a program behind when interrupted.
  (cd "$folder" && CGO_ENABLED=0 GOTOOLCHAIN=local nice go build -trimpath -buildvcs=false -tags "$tags" \
    -ldflags "$flags" -o "$bin/.partial-$name" "$package") >"$log" 2>&1 ||
    die "$name could not be built: $(tail -n 3 "$log") (go.mod and go.sum are in $folder)"
  mv "$bin/.partial-$name" "$bin/$name"
}

# Without a version linked in, Kubernetes' programs report v0.0.0 and clients refuse them.
link_flags() {
  local version package=k8s.io/component-base/version
  version=$(sed -n "s|^\tk8s.io/kubernetes \(v[0-9.]*\).*|\1|p" "$HERE/programs/go.mod")
  [[ $version =~ ^v([0-9]+)\.([0-9]+)\. ]] || die "programs/go.mod names no version of k8s.io/kubernetes"
  printf '%s' "-s -w -X $package.gitVersion=$version -X $package.gitTreeState=clean" \
    " -X $package.gitMajor=${BASH_REMATCH[1]} -X $package.gitMinor=${BASH_REMATCH[2]}"
}

# render_olm FOLDER: OLM's manifests from its own chart, with images from the local registry. Its
# CatalogSource is left out: it names an image that a machine without a registry cannot pull.
render_olm() {
  local out=$1/olm-manifests source
  source=$(cd "$HERE/programs" && go list -m -f '{{.Dir}}' "$OLM")
  mkdir -p "$out"
  # The files do not begin with a separator of their own.
  sed -s '1i ---' "$source"/deploy/chart/crds/*.yaml >"$out/crds.yaml"
  "$1/helm" template olm "$source/deploy/chart" \
    --values "$source/deploy/upstream/values.yaml" --values "$HERE/config/olm-values.yaml" \
    --show-only 'templates/0000_50_olm_0[0-9]*.yaml' --show-only 'templates/0000_50_olm_1[0-6]*.yaml' \
    >"$out/olm.yaml"
}
