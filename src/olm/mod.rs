//! ClusterServiceVersion, bundle and catalog. Works on manifests and knows no kind of ours, so it serves any operator.
