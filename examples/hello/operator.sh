#!/bin/sh
# Greets: what a Hello says is written into its status. What is there already is sent again when this starts, and writing it again changes nothing.
set -eu
template='{{.metadata.namespace}} {{.metadata.name}} {{.spec.name}}{{"\n"}}'
kubectl get hellos --all-namespaces --watch --output "go-template=$template" |
  while read -r namespace name who; do
    kubectl --namespace "$namespace" patch hello "$name" --subresource status --type merge \
      --patch "{\"status\":{\"message\":\"Hello, $who\"}}" || echo "hello: $namespace/$name is not greeted" >&2
  done
