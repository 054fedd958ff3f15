//! What is checked as a whole and becomes active as a whole: a configuration, and everything that decides whether nginx takes it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use sha2::{Digest, Sha256};

use super::config;
use crate::api::my_proxy::ValidProxy;
use crate::api::text::hex;
use crate::controllers::my_proxy::Settings;

/// The name of the file in the ConfigMap.
pub const FILE: &str = "nginx.conf";
const IMAGE: &str = "roadstead.dev/image";
const TLS_SECRET: &str = "roadstead.dev/tls-secret";
const AGENT: &str = "roadstead.dev/agent-image";
/// On the ConfigMap and the pods: the key of the unit that they have.
pub const KEY: &str = "roadstead.dev/config";

/// A configuration, the image whose nginx is to take it, the agent that prepares it, and the Secret that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// `nginx.conf`.
    pub config: String,
    /// nginx's image.
    pub image: String,
    /// The image that the agent is copied from.
    pub agent_image: String,
    /// The Secret with certificate and key.
    pub tls_secret: Option<String>,
}

impl Unit {
    /// What a proxy asks for.
    pub fn of(proxy: &ValidProxy, settings: &Settings) -> Self {
        Self {
            config: config::render(proxy, &settings.cluster_domain),
            image: proxy
                .image
                .clone()
                .unwrap_or_else(|| settings.nginx_image.clone()),
            agent_image: settings.agent_image.clone(),
            tls_secret: proxy.tls_secret.clone(),
        }
    }

    /// Reads the unit that is active from its ConfigMap; none if that was not written by [`super::config_map`], or was changed since:
    /// nginx never accepted what it holds then.
    pub fn read(config_map: &ConfigMap) -> Option<Self> {
        let annotations = config_map.metadata.annotations.as_ref()?;
        let unit = Self {
            config: config_map.data.as_ref()?.get(FILE)?.clone(),
            image: annotations.get(IMAGE)?.clone(),
            agent_image: annotations.get(AGENT)?.clone(),
            tls_secret: annotations.get(TLS_SECRET).cloned(),
        };
        (annotations.get(KEY) == Some(&unit.key())).then_some(unit)
    }

    /// Ten hex digits that differ when anything of the unit does.
    pub fn key(&self) -> String {
        let mut hash = Sha256::new();
        let secret = self.tls_secret.as_deref().unwrap_or_default();
        for part in [&self.config, &self.image, &self.agent_image, secret] {
            hash.update(Sha256::digest(part));
        }
        hex(&hash.finalize()[..5])
    }

    /// The annotations from which [`Self::read`] restores what is not in the file.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::from([
            (KEY.to_owned(), self.key()),
            (IMAGE.to_owned(), self.image.clone()),
            (AGENT.to_owned(), self.agent_image.clone()),
        ]);
        annotations.extend(
            self.tls_secret
                .clone()
                .map(|secret| (TLS_SECRET.to_owned(), secret)),
        );
        annotations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_covers_all_of_the_unit() {
        let unit = Unit {
            config: "a".into(),
            image: "b".into(),
            agent_image: "c".into(),
            tls_secret: None,
        };
        let others = [
            Unit {
                config: "x".into(),
                ..unit.clone()
            },
            Unit {
                image: "x".into(),
                ..unit.clone()
            },
            Unit {
                agent_image: "x".into(),
                ..unit.clone()
            },
            Unit {
                tls_secret: Some("x".into()),
                ..unit.clone()
            },
        ];
        assert_eq!(unit.key().len(), 10);
        assert!(others.iter().all(|other| other.key() != unit.key()));
    }
}
