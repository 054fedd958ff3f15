//! Where a behaviour is tried: a namespace of its own at an API server, simulated or real.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub struct Place {
    pub client: Client,
    pub namespace: String,
}

/// One behaviour. It panics where it does not hold.
pub type Behaviour = fn(Place) -> BoxFuture<'static, ()>;

/// Lists behaviours with their names.
macro_rules! behaviours {
    ($($module:ident :: $name:ident),* $(,)?) => {
        /// All of them, by name.
        pub const ALL: &[(&str, $crate::place::Behaviour)] =
            &[$((stringify!($name), |place| Box::pin($module::$name(place)))),*];
    };
}
pub(crate) use behaviours;

/// How many behaviours are tried at once: a real server has them wait, each for something else.
const AT_ONCE: usize = 8;

/// Tries each behaviour at a place of its own, which lasts as long as what comes with it; fails with the names of those that do not hold.
pub fn each<L>(behaviours: &[(&'static str, Behaviour)], place: impl AsyncFn(String) -> (Place, L) + Sync) {
    let only = std::env::var("BEHAVIOUR").unwrap_or_default();
    let wanted = behaviours.iter().filter(|(name, _)| name.contains(&only));
    assert!(
        wanted.clone().next().is_some(),
        "no behaviour has {only:?} in its name: nothing was tried"
    );
    let (left, failed) = (Mutex::new(wanted), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap().next();
    let work = || {
        while let Some((name, behaviour)) = next() {
            let attempt = catch_unwind(AssertUnwindSafe(|| try_one(name, *behaviour, &place)));
            if attempt.is_err() {
                failed.lock().unwrap().push(*name);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "of {} behaviours {} do not hold: {failed:#?}",
        behaviours.len(),
        failed.len()
    );
}

fn try_one<L>(name: &str, behaviour: Behaviour, place: &impl AsyncFn(String) -> (Place, L)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // As long as a name may be.
    let namespace: String = name.replace('_', "-").chars().take(60).collect();
    runtime.block_on(async {
        let (place, lasting) = place(namespace.trim_end_matches('-').to_owned()).await;
        behaviour(place).await;
        drop(lasting);
    });
}

impl Place {
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// For what a type would not let pass.
    pub fn raw<K>(&self) -> Api<DynamicObject>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &ApiResource::erase::<K>(&()),
        )
    }

    pub async fn create<K>(&self, object: Value) -> kube::Result<DynamicObject>
    where
        K: Resource<DynamicType = ()>,
    {
        let mut object = object;
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        let object = serde_json::from_value(object).unwrap();
        self.raw::<K>().create(&PostParams::default(), &object).await
    }

    pub async fn config_map(&self, name: &str) -> DynamicObject {
        let object = json!({"metadata": {"name": name}, "data": {"a": "1"}});
        self.create::<ConfigMap>(object).await.unwrap()
    }
}
