//! A cluster, as the commands that people type reach it: by their kubeconfig, with their rights.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub(in crate::cli) mod reader;
pub(in crate::cli) mod writer;

use super::Failure;
use crate::olm::findings::listed;

/// A server that cannot be reached is noticed after this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Which cluster.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Connection {
    /// The kubeconfig. Default: those that KUBECONFIG names, ~/.kube/config, or the pod's own service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// A cluster that can be asked.
pub(in crate::cli) struct Cluster {
    pub(in crate::cli) client: Client,
    /// The namespace of the context.
    pub(in crate::cli) namespace: String,
}

impl Connection {
    /// Reads the kubeconfig. Whether anybody answers, the first request shows.
    pub(in crate::cli) async fn cluster(&self) -> Result<Cluster, Failure> {
        let mut config = self
            .config()
            .await
            .map_err(|error| format!("no cluster to look at: {error}"))?;
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let namespace = config.default_namespace.clone();
        Ok(Cluster {
            client: Client::try_from(config)?,
            namespace,
        })
    }

    async fn config(&self) -> Result<Config, Failure> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let kubeconfig = match (&self.kubeconfig, &self.context) {
            (Some(file), _) => Kubeconfig::read_from(file)?,
            (None, Some(_)) => Kubeconfig::read()?,
            (None, None) => return Ok(Config::infer().await?),
        };
        if let Some(context) = &self.context {
            check_context(context, &kubeconfig)?;
        }
        Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
    }
}

/// kube itself says that it does not find it, and not which there are.
fn check_context(context: &str, kubeconfig: &Kubeconfig) -> Result<(), Failure> {
    let names = kubeconfig.contexts.iter().map(|known| known.name.as_str());
    let names: Vec<&str> = names.collect();
    if names.contains(&context) {
        return Ok(());
    }
    let there = if names.is_empty() {
        "has none".to_owned()
    } else {
        format!("has {}", listed(names))
    };
    Err(format!("--context is {context:?}, and the kubeconfig {there}").into())
}
