//! What `roadstead run` is told about what it runs, and the controllers of every kind.

use std::sync::Arc;

use clap::ArgAction;

use super::values::{PostgresImage, postgres_images};
use crate::controllers::database::https::HttpsInstances;
use crate::controllers::database::instances::Instances;
use crate::controllers::my_proxy::agents::{Agents, HttpAgents};
use crate::controllers::{database, my_proxy};
use crate::package;
use crate::runtime::controller::ControllerOptions;
use crate::runtime::manager::Manager;

/// Flags of `roadstead run`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Operands")]
pub(super) struct Operands {
    /// The nginx image of proxies that name none.
    #[arg(
        long,
        env = "RELATED_IMAGE_NGINX",
        default_value = package::NGINX_IMAGE,
        value_name = "IMAGE"
    )]
    nginx_image: String,
    /// The PostgreSQL image of databases of a major version that name none; repeat it for others. Without it: the variable
    /// RELATED_IMAGE_POSTGRES_MAJOR, or else postgres:MAJOR.
    #[arg(long, value_name = "MAJOR=IMAGE")]
    postgres_image: Vec<PostgresImage>,
    /// This operator's own image, from which operands get the program that runs in them.
    #[arg(long, env = "OPERATOR_IMAGE", default_value_t = package::operator_image(env!("CARGO_PKG_VERSION")), value_name = "IMAGE")]
    operator_image: String,
    /// The cluster's DNS domain.
    #[arg(
        long,
        env = "CLUSTER_DOMAIN",
        default_value = "cluster.local",
        value_name = "DOMAIN"
    )]
    cluster_domain: String,
    /// Ask pods how they are: those of proxies which configuration they serve, those of databases what PostgreSQL does. Without it, a proxy is
    /// Ready a few seconds before a changed configuration is served, and whether a database serves is not known: for where the operator does not
    /// reach pods.
    #[arg(long, env = "ASK_PODS", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    ask_pods: bool,
}

impl Operands {
    /// The cluster's DNS domain.
    pub(super) fn cluster_domain(&self) -> &str {
        &self.cluster_domain
    }

    /// The place where every kind's controller is added, each with the options of its name.
    pub(super) fn register(&self, manager: &mut Manager, options: impl Fn(&str) -> ControllerOptions) {
        let settings = my_proxy::Settings {
            nginx_image: self.nginx_image.clone(),
            agent_image: self.operator_image.clone(),
            cluster_domain: self.cluster_domain.clone(),
        };
        let agents = || Arc::new(HttpAgents::default()) as Arc<dyn Agents>;
        let agents = self.ask_pods.then(agents);
        my_proxy::register(manager, settings, agents, options(my_proxy::watches::NAME));

        let settings = database::Settings {
            postgres_images: postgres_images(&self.postgres_image, |name| std::env::var(name).ok()),
            agent_image: self.operator_image.clone(),
            cluster_domain: self.cluster_domain.clone(),
        };
        let instances = || Arc::new(HttpsInstances::default()) as Arc<dyn Instances>;
        let instances = self.ask_pods.then(instances);
        database::register(manager, settings, instances, options(database::watches::NAME));
    }
}
