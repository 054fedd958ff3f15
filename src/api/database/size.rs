//! What the three sizes mean.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many instances a database has, and how much each may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Size {
    /// 1 instance with 500m CPU and 512Mi.
    #[default]
    Small,
    /// 2 instances with 1 CPU and 1Gi each.
    Medium,
    /// 3 instances with 2 CPU and 2Gi each.
    Large,
}

impl Size {
    /// Every size.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }

    /// How many instances, the primary among them.
    pub const fn instances(self) -> i32 {
        match self {
            Self::Small => 1,
            Self::Medium => 2,
            Self::Large => 3,
        }
    }

    /// What each instance may use at most: cores and bytes.
    pub fn limits(self) -> BTreeMap<String, Quantity> {
        match self {
            Self::Small => cpu_and_memory("500m", "512Mi"),
            Self::Medium => cpu_and_memory("1", "1Gi"),
            Self::Large => cpu_and_memory("2", "2Gi"),
        }
    }

    /// What each instance is promised: a quarter of its limits, so that three large ones fit on a small machine.
    pub fn requests(self) -> BTreeMap<String, Quantity> {
        match self {
            Self::Small => cpu_and_memory("125m", "128Mi"),
            Self::Medium => cpu_and_memory("250m", "256Mi"),
            Self::Large => cpu_and_memory("500m", "512Mi"),
        }
    }
}

fn cpu_and_memory(cpu: &str, memory: &str) -> BTreeMap<String, Quantity> {
    [("cpu", cpu), ("memory", memory)]
        .map(|(name, quantity)| (name.to_owned(), Quantity(quantity.to_owned())))
        .into()
}
