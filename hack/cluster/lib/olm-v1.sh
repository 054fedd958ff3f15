# OLM v1 (catalogd and operator-controller) with cert-manager, for who wants it beside OLM: its image, and its own manifests for this cluster.
# shellcheck shell=bash

# olm_v1 FOLDER: pushes the image, made if it is not there yet, and writes the manifests: cert-manager's types by themselves, since what is of them
# can be applied only then.
olm_v1() {
  (($# == 1)) || die "usage: cluster olm-v1 FOLDER, for example: cluster olm-v1 dist/olm-v1"
  need_running
  image olm-v1
  local out=$1 work source name
  work=$(mktemp -d "$STATE/olm-v1-XXXXXX")
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$work'" EXIT
  source=$(olm_v1_module github.com/operator-framework/operator-controller)
  cp "$source/manifests/standard.yaml" "$work/"
  for name in kustomization.yaml cert-manager.yaml registries.conf; do
    render "olm-v1/$name" >"$work/$name"
  done
  mkdir -p "$out"
  # Templates of a chart, but only in some of their comments and labels
  source=$(olm_v1_module github.com/cert-manager/cert-manager)
  sed -s -e '1i ---' -e '/{{/d' "$source"/deploy/crds/*.yaml >"$out/types.yaml"
  "$(bin_folder)/kubectl" kustomize "$work" >"$out/olm-v1.yaml"
}

# Where the source of a module of the image is; the image may be there without it.
olm_v1_module() {
  (cd "$HERE/images/olm-v1" && export GOTOOLCHAIN=local && go mod download "$1" && go list -m -f '{{.Dir}}' "$1") ||
    die "the source of $1 cannot be had, though images/olm-v1/go.mod names it"
}
