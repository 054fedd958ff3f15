//! What this product ships: its own Deployment, RBAC, samples and base ClusterServiceVersion, built from the types.
