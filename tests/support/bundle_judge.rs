//! Upstream's validators of bundles, as judge.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Where the program is, which is built of `operator-framework/api` and `operator-registry` when it is first asked for.
fn program() -> PathBuf {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("hack/judge/build");
    let output = Command::new(build).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// What they find in a bundle, as `operator-sdk bundle validate` asks them, with the optional ones that are named: `by` whom, at which `level`, and `detail`.
pub fn findings(bundle: &Path, optional: &[&str]) -> Vec<Value> {
    findings_amid(bundle, optional, &[])
}

/// What they find in each of several bundles, in their order.
#[allow(dead_code, reason = "each binary uses what it needs of this")]
pub fn findings_of_each(bundles: &[PathBuf]) -> Vec<Vec<Value>> {
    let output = Command::new(program()).args(bundles).output().unwrap();
    let verdicts = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let found = verdicts.map(|verdict| serde_json::from_value(verdict.unwrap()["results"].take()).unwrap());
    let found: Vec<Vec<Value>> = found.collect();
    assert_eq!(
        found.len(),
        bundles.len(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    found
}

/// The same, with variables of the environment for those that ask others.
pub fn findings_amid(bundle: &Path, optional: &[&str], environment: &[(&str, &str)]) -> Vec<Value> {
    let mut command = Command::new(program());
    command.envs(environment.iter().copied());
    if !optional.is_empty() {
        command.args(["--optional", &optional.join(",")]);
    }
    let output = command.arg(bundle).output().unwrap();
    let mut verdict: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_value(verdict["results"].take()).unwrap()
}

/// Upstream's definition of the ClusterServiceVersion: the schema by which the API server judges one.
#[allow(dead_code, reason = "each binary uses what it needs of this")]
pub fn definition() -> Value {
    let module = "github.com/operator-framework/api";
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Dir}}", module])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("hack/judge"));
    let output = list.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let folder = String::from_utf8(output.stdout).unwrap();
    let file = Path::new(folder.trim()).join("crds/operators.coreos.com_clusterserviceversions.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut definition = roadstead::olm::yaml::value(&text).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
}
