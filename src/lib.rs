//! Roadstead: data services on Kubernetes, and the tooling that packages an operator.
//!
//! # The map of the house
//!
//! | room | what lives there | may use |
//! | --- | --- | --- |
//! | [`cli`] | one file per subcommand; the only readers of arguments and environment | everything |
//! | [`api`] | the types that users write, one folder per kind, one file per version. No client | nothing |
//! | [`controllers`] | one folder per kind: observe, desired, status, reconcile | `api`, `runtime`, `pki` |
//! | [`runtime`] | what any operator needs: manager, lease, queue, apply, conditions, Events | `telemetry` |
//! | [`pki`] | keys and certificates of our own, and whether a client would believe them | nothing |
//! | [`telemetry`] | logs, metrics, traces | nothing |
//! | [`instance`] | what runs inside an operand's container | `api`, `runtime`, `telemetry`, `webhook` (its server) |
//! | [`webhook`] | the server that answers the API server, and the certificates that it is served with | `api`, `runtime`, `pki`, `telemetry` |
//! | [`olm`] | ClusterServiceVersion, bundle, catalog; works on manifests, knows no kind of ours | nothing |
//! | [`package`] | what this product ships: its own Deployment, RBAC, samples and base CSV | `api`, `controllers`, `olm`, `webhook` (its paths) |
//!
//! Every controller goes one way:
//! `observe` (reads only) → `validate` (pure) → `desired` (pure) → `apply` (server-side apply, prune) → `status` (pure, one patch if changed).

pub mod api;
pub mod cli;
pub mod controllers;
pub mod instance;
pub mod olm;
pub mod package;
pub mod pki;
pub mod runtime;
pub mod telemetry;
pub mod webhook;
