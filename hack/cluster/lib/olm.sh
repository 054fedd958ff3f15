# The Operator Lifecycle Manager, as a production cluster runs it: pods in the namespace "olm".
# shellcheck shell=bash

add_olm() {
  stage "OLM's types" olm_types
  stage "OLM" olm_objects
  stage "OLM's package server" await_component 120 kubelet "the packageserver CSV to be Succeeded" packageserver_succeeded
}

olm_types() {
  "$BIN/kubectl" --request-timeout=10s create -f "$BIN/olm-manifests/crds.yaml" --output=name >"$STATE/logs/olm-install.log"
  # A type is in the API server's discovery, where kubectl looks, some time after it is Established.
  await_component 30 kube-apiserver "OLM's types to be served" kubectl_quiet get \
    olmconfigs.operators.coreos.com,clusterserviceversions.operators.coreos.com,operatorgroups.operators.coreos.com
}

olm_objects() {
  "$BIN/kubectl" --request-timeout=10s create -f "$BIN/olm-manifests/olm.yaml" --output=name >>"$STATE/logs/olm-install.log"
}

packageserver_succeeded() {
  local phase
  phase=$(kubectl_quiet get csv --namespace olm packageserver -o 'jsonpath={.status.phase}: {.status.message}')
  echo "packageserver is $phase"
  [[ $phase == Succeeded:* ]]
}
