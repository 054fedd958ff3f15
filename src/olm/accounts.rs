//! The service accounts that the Deployments run as: which subjects of bindings are theirs, and what of them a ClusterServiceVersion can say.
//!
//! OLM puts all of an operator into one namespace, of which nobody knows the name before. So the namespaces of the manifests tell only what belongs together: an
//! account of the same name in another namespace is somebody else's. A namespace that is not said is the operator's own, wherever that is, since the output of
//! kustomize and helm may leave it out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Error;
use super::contents::label;
use super::manifests::{Manifests, is_kind, list, name, text};
use super::permissions::{RBAC, bindings};

/// The account of pods that name none. Every namespace has one.
const DEFAULT: &str = "default";

/// What Kubernetes takes from the account where the pods themselves say nothing.
const FOR_PODS: [&str; 2] = ["imagePullSecrets", "automountServiceAccountToken"];

/// Domains of labels and annotations by which tools keep their own books.
const BOOKS: [&str; 4] = [
    "app.kubernetes.io/",
    "helm.sh/",
    "kubectl.kubernetes.io/",
    "meta.helm.sh/",
];

/// The accounts of the operator, each with the namespaces of the Deployments that run as it. A namespace is empty where nothing says it.
#[derive(Debug, Default, PartialEq)]
pub struct Accounts(BTreeMap<String, BTreeSet<String>>);

impl Accounts {
    /// The accounts of these Deployments.
    ///
    /// A Deployment that says no namespace is in that of its account's ServiceAccount, or else in the only one in which bindings name its account.
    ///
    /// # Errors
    /// [`Error::Homeless`]: these are several, or it is the account `default`, which every namespace has.
    pub fn of(manifests: &Manifests, deployments: &[Value]) -> Result<Self, Error> {
        let mut accounts = Self::default();
        for deployment in deployments {
            let namespace = home(manifests, deployment)?;
            let namespaces = accounts.0.entry(account_of(deployment).to_owned()).or_default();
            namespaces.insert(namespace);
        }
        Ok(accounts)
    }

    /// Whether an account is one of the operator's.
    pub(super) fn has(&self, account: Named<'_>) -> bool {
        let namespaces = self.0.get(account.name);
        namespaces.is_some_and(|all| account.namespace.is_empty() || all.contains(account.namespace))
    }

    /// Their names, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Those that OLM makes only where the ClusterServiceVersion gives them rights.
    pub(super) fn made(&self) -> impl Iterator<Item = &str> {
        self.names().filter(|account| *account != DEFAULT)
    }

    /// Refuses rights of another namespace, and accounts of it that would take the place of the operator's: OLM would put them into the operator's own.
    ///
    /// # Errors
    /// [`Error::Elsewhere`]
    pub(super) fn check_namespaces(&self, manifests: &Manifests) -> Result<(), Error> {
        for manifest in manifests.iter() {
            let body = &manifest.body;
            let namespace = text(body, "/metadata/namespace");
            let is_elsewhere = if is_kind(body, "", "ServiceAccount") {
                let account = Named::of_object(body);
                self.0.contains_key(account.name) && !self.has(account)
            } else if is_kind(body, RBAC, "Role") || is_kind(body, RBAC, "RoleBinding") {
                !self.is_home(namespace)
            } else {
                false
            };
            if is_elsewhere {
                return Err(Error::Elsewhere {
                    source_file: manifest.source.clone(),
                    object: label(body),
                    namespace: namespace.to_owned(),
                    homes: self.homes().map(str::to_owned).collect(),
                });
            }
        }
        Ok(())
    }

    /// Whether the operator is in a namespace, as far as anything says so.
    fn is_home(&self, namespace: &str) -> bool {
        let mut homes = self.homes().peekable();
        namespace.is_empty() || homes.peek().is_none() || homes.any(|home| home == namespace)
    }

    /// The namespaces of the operator that are said.
    fn homes(&self) -> impl Iterator<Item = &str> {
        let homes: BTreeSet<&str> = self.0.values().flatten().map(String::as_str).collect();
        homes.into_iter().filter(|home| !home.is_empty())
    }
}

/// An account by its name and its namespace, which is empty where nothing says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
}

impl<'a> Named<'a> {
    fn of_object(body: &'a Value) -> Self {
        Self {
            name: name(body),
            namespace: text(body, "/metadata/namespace"),
        }
    }

    fn told(&self) -> String {
        match self.namespace {
            "" => self.name.to_owned(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

/// The service accounts that a binding names. One without a namespace is in that of the RoleBinding, as Kubernetes has it.
pub(super) fn subjects(binding: &Value) -> impl Iterator<Item = Named<'_>> {
    let own = match text(binding, "/kind") {
        "RoleBinding" => text(binding, "/metadata/namespace"),
        _ => "",
    };
    let subjects = list(binding, "/subjects").iter();
    let accounts = subjects.filter(|subject| text(subject, "/kind") == "ServiceAccount");
    accounts.map(move |subject| Named {
        name: text(subject, "/name"),
        namespace: match text(subject, "/namespace") {
            "" => own,
            said => said,
        },
    })
}

/// The account that the pods of a Deployment run as.
pub(super) fn account_of(deployment: &Value) -> &str {
    match text(deployment, "/spec/template/spec/serviceAccountName") {
        "" => DEFAULT,
        account => account,
    }
}

fn home(manifests: &Manifests, deployment: &Value) -> Result<String, Error> {
    let (account, object) = (account_of(deployment), object_of(manifests, deployment));
    let of_account = object.map(|object| text(object, "/metadata/namespace"));
    let said = [
        text(deployment, "/metadata/namespace"),
        of_account.unwrap_or_default(),
    ];
    if let Some(said) = said.into_iter().find(|said| !said.is_empty()) {
        return Ok(said.to_owned());
    }
    let named = bindings(manifests).flat_map(|binding| subjects(&binding.body));
    let named = named.filter(|subject| subject.name == account && !subject.namespace.is_empty());
    let namespaces: BTreeSet<&str> = named.map(|subject| subject.namespace).collect();
    let is_clear = account != DEFAULT || object.is_some();
    match (namespaces.first(), namespaces.len()) {
        (None, _) => Ok(String::new()),
        (Some(only), 1) if is_clear => Ok((*only).to_owned()),
        _ => Err(Error::Homeless {
            deployment: name(deployment).to_owned(),
            account: account.to_owned(),
            namespaces: namespaces.into_iter().map(str::to_owned).collect(),
        }),
    }
}

/// The ServiceAccount of a Deployment, where the manifests hold it.
fn object_of<'a>(manifests: &'a Manifests, deployment: &Value) -> Option<&'a Value> {
    let account = account_of(deployment);
    let mut objects = manifests.of_kind("", "ServiceAccount");
    objects.find(|object| name(object) == account)
}

/// Says in the pods of a Deployment what their account says for them. OLM makes the account from its name alone, and a bundle that ships a ServiceAccount of
/// that name is refused by upstream's tools, since OLM would write over it.
pub(super) fn carry(manifests: &Manifests, deployment: &mut Value) {
    let Some(object) = object_of(manifests, deployment) else {
        return;
    };
    let pods = deployment.pointer_mut("/spec/template/spec");
    let Some(pods) = pods.and_then(Value::as_object_mut) else {
        return;
    };
    for field in FOR_PODS {
        let said = object.get(field).filter(|said| !says_nothing(said));
        if let Some(said) = said
            && pods.get(field).is_none_or(says_nothing)
        {
            pods.insert(field.to_owned(), said.clone());
        }
    }
}

fn says_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Bindings of accounts that nobody has, as far as the manifests tell: a slip, more often than not, and the operator lacks the rights. Those of another namespace are
/// of others.
pub(super) fn strangers(manifests: &Manifests, accounts: &Accounts) -> Vec<String> {
    let has_object = |account: Named<'_>| {
        let mut objects = manifests.of_kind("", "ServiceAccount");
        objects.any(|object| name(object) == account.name)
    };
    let is_stranger = |account: &Named<'_>| {
        accounts.is_home(account.namespace) && !accounts.has(*account) && !has_object(*account)
    };
    let told = bindings(manifests).flat_map(|binding| {
        let strangers = subjects(&binding.body).filter(is_stranger);
        strangers.map(move |account| {
            let names: Vec<&str> = accounts.names().collect();
            format!(
                "{}: {} gives rights to the ServiceAccount {}, which the manifests do not have, nor does a Deployment run as it; the operator runs as {}",
                binding.source.display(),
                label(&binding.body),
                account.name,
                names.join(", ")
            )
        })
    });
    told.collect()
}

/// Deployments to whose accounts no binding gives rights, where there are bindings for accounts as which no Deployment runs: a slip in a name or a namespace, more
/// often than not.
pub(super) fn without_rights(manifests: &Manifests, deployments: &[Value]) -> Vec<String> {
    let named: Vec<Named<'_>> = bindings(manifests)
        .flat_map(|binding| subjects(&binding.body))
        .collect();
    let runs_as = |deployment: &Value, account: &Named<'_>| {
        let own = home(manifests, deployment).unwrap_or_default();
        let is_near = account.namespace.is_empty() || own.is_empty() || account.namespace == own;
        account.name == account_of(deployment) && is_near
    };
    let is_nobodys = |account: &&Named<'_>| !deployments.iter().any(|it| runs_as(it, account));
    let nobodys: BTreeSet<String> = named.iter().filter(is_nobodys).map(Named::told).collect();
    if nobodys.is_empty() {
        return Vec::new();
    }
    let nobodys = nobodys.into_iter().collect::<Vec<_>>().join(", ");
    let lacks = |deployment: &&Value| !named.iter().any(|account| runs_as(deployment, account));
    let told = deployments.iter().filter(lacks).map(|deployment| {
        format!(
            "Deployment {} runs as the ServiceAccount {}, to which no binding gives rights, while bindings give some to {nobodys}, as which none runs",
            name(deployment),
            account_of(deployment)
        )
    });
    told.collect()
}

/// What the operator's ServiceAccounts say that neither the ClusterServiceVersion nor its pods can, each with the file.
pub(super) fn lost(manifests: &Manifests) -> Vec<String> {
    let deployments = manifests.of_kind("apps", "Deployment");
    let used: BTreeSet<&str> = deployments.map(account_of).collect();
    let mut told = Vec::new();
    for manifest in manifests.iter() {
        let body = &manifest.body;
        let fields = fields_of_its_own(body);
        if is_kind(body, "", "ServiceAccount") && used.contains(name(body)) && !fields.is_empty() {
            told.push(format!(
                "{}: {}: OLM makes the account from its name alone, without {}; whoever installs the operator has to add that",
                manifest.source.display(),
                label(body),
                fields.join(", ")
            ));
        }
    }
    told
}

fn fields_of_its_own(account: &Value) -> Vec<String> {
    let mut fields = Vec::new();
    for place in ["annotations", "labels"] {
        let keys = account["metadata"][place].as_object().into_iter().flatten();
        let keys = keys.map(|(key, _)| key);
        let keys = keys.filter(|key| !BOOKS.iter().any(|domain| key.starts_with(domain)));
        fields.extend(keys.map(|key| format!("metadata.{place}[{key:?}]")));
    }
    if !says_nothing(&account["secrets"]) {
        fields.push("secrets".to_owned());
    }
    fields
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::olm::Tree;

    fn manifests(documents: &[&str]) -> Manifests {
        let mut tree = Tree::default();
        tree.insert("all.yaml", documents.join("\n---\n")).unwrap();
        Manifests::of_tree(&tree).unwrap()
    }

    fn accounts(documents: &[&str]) -> Result<Accounts, Error> {
        let manifests = manifests(documents);
        let deployments: Vec<Value> = manifests.of_kind("apps", "Deployment").cloned().collect();
        Accounts::of(&manifests, &deployments)
    }

    const UNSAID: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: op}, spec: {template: {spec: {serviceAccountName: manager}}}}";
    const SAID: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: op, namespace: sys}, spec: {template: {spec: {serviceAccountName: manager}}}}";
    const DEFAULTED: &str =
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: op}, spec: {template: {spec: {}}}}";
    const ACCOUNT: &str = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: manager, namespace: own}}";
    const IN_A: &str = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, subjects: [{kind: ServiceAccount, name: manager, namespace: a}]}";
    const IN_B: &str = "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: b}, subjects: [{kind: ServiceAccount, name: manager}]}";
    const DEFAULT_OF_A: &str = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, subjects: [{kind: ServiceAccount, name: default, namespace: a}]}";

    #[rstest]
    #[case::said_in_the_deployment(&[SAID, ACCOUNT, IN_A], "sys")]
    #[case::said_in_the_account(&[UNSAID, ACCOUNT, IN_A], "own")]
    #[case::said_in_a_subject(&[UNSAID, IN_A], "a")]
    #[case::said_in_a_role_binding(&[UNSAID, IN_B], "b")]
    #[case::nowhere(&[UNSAID], "")]
    fn an_account_is_in_the_namespace_of_its_deployment(#[case] documents: &[&str], #[case] home: &str) {
        let expected = [("manager".to_owned(), [home.to_owned()].into())];
        assert_eq!(accounts(documents).unwrap(), Accounts(expected.into()));
    }

    #[rstest]
    #[case::several(&[UNSAID, IN_A, IN_B], "Deployment op: metadata.namespace is missing, and bindings name the ServiceAccount manager of a, b; accepted is a namespace, so that its rights are those of one of them")]
    #[case::of_every_namespace(&[DEFAULTED, DEFAULT_OF_A], "Deployment op: metadata.namespace is missing, and bindings name the ServiceAccount default of a; accepted is a namespace, so that its rights are those of one of them")]
    fn whose_account_it_is_is_never_guessed(#[case] documents: &[&str], #[case] told: &str) {
        assert_eq!(accounts(documents).unwrap_err().to_string(), told);
    }

    #[rstest]
    #[case("manager", "sys", true)]
    #[case::not_said("manager", "", true)]
    #[case::of_another_namespace("manager", "other", false)]
    #[case::of_another_name("somebody", "sys", false)]
    fn a_subject_is_the_operators_by_name_and_namespace(
        #[case] name: &str,
        #[case] namespace: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(
            accounts(&[SAID]).unwrap().has(Named { name, namespace }),
            expected
        );
    }

    #[rstest]
    #[case::role("rbac.authorization.k8s.io/v1", "Role", "x")]
    #[case::role_binding("rbac.authorization.k8s.io/v1", "RoleBinding", "x")]
    #[case::account_of_the_same_name("v1", "ServiceAccount", "manager")]
    fn what_is_for_another_namespace_is_refused_by_name(
        #[case] version: &str,
        #[case] kind: &str,
        #[case] object: &str,
    ) {
        let of = |namespace: &str| {
            let body =
                format!("{{apiVersion: {version}, kind: {kind}, metadata: {{name: {object}{namespace}}}}}");
            let documents = [SAID, &body];
            accounts(&documents)
                .unwrap()
                .check_namespaces(&manifests(&documents))
        };
        of("").unwrap();
        of(", namespace: sys").unwrap();
        let told = format!(
            "all.yaml: {kind} {object}: metadata.namespace is \"other\"; accepted is that of the Deployments, sys, into which OLM would put it; \
             leave it out of --input, or let the operator create the object"
        );
        assert_eq!(of(", namespace: other").unwrap_err().to_string(), told);
    }

    #[test]
    fn pods_say_what_their_account_said_for_them_unless_they_say_it_themselves() {
        let account = r"
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager}
imagePullSecrets: [{name: pull}]
automountServiceAccountToken: false
";
        let manifests = manifests(&[SAID, account]);
        let deployment = manifests.of_kind("apps", "Deployment").next().unwrap();
        let mut carried = deployment.clone();
        carry(&manifests, &mut carried);
        assert_eq!(
            carried["spec"]["template"]["spec"],
            json!({"serviceAccountName": "manager", "imagePullSecrets": [{"name": "pull"}], "automountServiceAccountToken": false})
        );
        let own = json!({"serviceAccountName": "manager", "imagePullSecrets": [{"name": "own"}], "automountServiceAccountToken": true});
        let mut carried = deployment.clone();
        carried["spec"]["template"]["spec"] = own.clone();
        carry(&manifests, &mut carried);
        assert_eq!(carried["spec"]["template"]["spec"], own);
    }

    #[test]
    fn what_olm_does_not_say_of_an_account_is_told() {
        let account = r#"
apiVersion: v1
kind: ServiceAccount
metadata:
  name: manager
  annotations: {"eks.amazonaws.com/role-arn": "arn", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
  labels: {app.kubernetes.io/name: op, azure.workload.identity/use: "true"}
secrets: [{name: token}]
"#;
        let told = "all.yaml: ServiceAccount manager: OLM makes the account from its name alone, without metadata.annotations[\"eks.amazonaws.com/role-arn\"], \
                    metadata.labels[\"azure.workload.identity/use\"], secrets; whoever installs the operator has to add that";
        assert_eq!(lost(&manifests(&[SAID, account])), [told]);
        let somebody = account.replace("name: manager", "name: somebody");
        assert_eq!(lost(&manifests(&[SAID, &somebody, ACCOUNT])), [""; 0]);
    }

    const BOUND: &str = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, subjects: [{kind: ServiceAccount, name: manager, namespace: sys}]}";

    #[rstest]
    #[case::an_account_of_another_name(
        "serviceAccountName: manager",
        "serviceAccountName: manger",
        Some("runs as the ServiceAccount manger")
    )]
    #[case::a_key_of_another_name(
        "serviceAccountName",
        "serviceAcountName",
        Some("runs as the ServiceAccount default")
    )]
    #[case::a_binding_of_another_namespace(
        "namespace: sys}]}",
        "namespace: sis}]}",
        Some("give some to sis/manager")
    )]
    #[case::all_is_well("namespace: sys}]}", "namespace: sys}]}", None)]
    #[case::nothing_is_said_of_a_namespace(", namespace: sys}]}", "}]}", None)]
    #[case::nobody_has_rights("ServiceAccount", "User", None)]
    fn a_deployment_to_whose_account_nobody_gives_rights_is_told(
        #[case] written: &str,
        #[case] mistyped: &str,
        #[case] phrase: Option<&str>,
    ) {
        let documents = [SAID, BOUND].map(|text| text.replacen(written, mistyped, 1));
        let manifests = manifests(&[&documents[0], &documents[1]]);
        let deployments: Vec<Value> = manifests.of_kind("apps", "Deployment").cloned().collect();
        let told = without_rights(&manifests, &deployments);
        match phrase {
            None => assert_eq!(told, [""; 0]),
            Some(phrase) => assert!(told.len() == 1 && told[0].contains(phrase), "{told:?}"),
        }
    }
}
