//! Catalogs for tests, as text: valid ones, and each with one thing wrong.

use std::path::Path;

use serde_json::{Value, json};

/// A ClusterServiceVersion's facts, with whatever might be written differently: characters that pages escape, empty and unknown fields, numbers.
pub fn metadata(version: &str) -> Value {
    json!({
        "annotations": {"alm-examples": "[{\"a\": \"<b> & c\"}]", "capabilities": "Deep Insights", "b": "line\u{2028}line"},
        "apiServiceDefinitions": {},
        "crdDescriptions": {
            "owned": [{
                "name": "widgets.example.org", "kind": "Widget", "version": "v1", "displayName": "Widget & co",
                "description": "Ä widget", "unknown": 1,
                "resources": [{"kind": "Deployment", "name": "", "version": "apps/v1"}],
                "specDescriptors": [{"path": "size", "x-descriptors": ["urn:alm:descriptor:com.tectonic.ui:podCount"], "value": {"b": 1, "a": [1.5]}}],
                "statusDescriptors": [{"path": "ready", "displayName": "Ready"}],
                "actionDescriptors": [{"path": "do"}],
            }],
            "required": [{"name": "others.example.org", "kind": "Other", "version": "v1beta1"}],
        },
        "description": format!("Version {version}: <script>\"quoted\" and \\ escaped\ttab"),
        "displayName": "Widgets",
        "installModes": [{"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": false}],
        "keywords": ["widget", "a>b"],
        "labels": {"operatorframework.io/arch.amd64": "supported"},
        "links": [{"name": "Home", "url": "https://example.org/?a=1&b=2"}],
        "maintainers": [{"name": "Ann", "email": "ann@example.org"}],
        "maturity": "stable",
        "minKubeVersion": "1.28.0",
        "nativeAPIs": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
        "provider": {"name": "Example", "url": "https://example.org"},
    })
}

pub fn bundle(package: &str, version: &str, more: &[Value]) -> Value {
    let mut properties = vec![
        json!({"type": "olm.gvk", "value": {"kind": "Widget", "group": "example.org", "version": "v1"}}),
        json!({"type": "olm.package", "value": {"packageName": package, "version": version}}),
    ];
    properties.extend(more.iter().cloned());
    json!({
        "schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"),
        "image": format!("registry.example.org/{package}-bundle@sha256:{}", "a".repeat(64)),
        "properties": properties,
        "relatedImages": [
            {"name": "", "image": format!("registry.example.org/{package}@sha256:{}", "b".repeat(64))},
            {"name": "side", "image": "registry.example.org/side:1"},
        ],
    })
}

pub fn property(kind: &str, value: Value) -> Value {
    json!({"type": kind, "value": value})
}

pub fn package(name: &str, channel: &str) -> Value {
    json!({"schema": "olm.package", "name": name, "defaultChannel": channel})
}

pub fn channel(package: &str, name: &str, entries: Value) -> Value {
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

/// A package with all that there may be.
pub fn rich() -> Vec<Value> {
    let icon = json!({"base64data": "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=", "mediatype": "image/svg+xml"});
    let csv = |version: &str| property("olm.csv.metadata", metadata(version));
    let manifest = |value: Value| {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(value.to_string());
        property("olm.bundle.object", json!({"data": data}))
    };
    let yaml = |text: &str| {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(text);
        property("olm.bundle.object", json!({"data": data}))
    };
    let mut inline = bundle(
        "inline",
        "0.1.0",
        &[
            manifest(
                json!({"kind": "ClusterServiceVersion", "apiVersion": "operators.coreos.com/v1alpha1",
                "metadata": {"name": "inline.v0.1.0"}, "spec": {"displayName": "<In> & line", "replicas": 3}}),
            ),
            manifest(
                json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
            ),
            yaml(
                "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\ndata:\n  b: <x> & y\n  a: |\n    1\n",
            ),
        ],
    );
    inline["image"] = json!("");
    vec![
        json!({"schema": "olm.package", "name": "widgets", "defaultChannel": "stable", "icon": icon, "description": "All <widgets>"}),
        channel(
            "widgets",
            "stable",
            json!([
                {"name": "widgets.v1.2.0", "replaces": "widgets.v1.1.0", "skips": ["widgets.v1.1.1"], "skipRange": ">=1.0.0 <1.2.0"},
                {"name": "widgets.v1.1.1"},
                {"name": "widgets.v1.1.0", "replaces": "widgets.v1.0.0"},
                {"name": "widgets.v1.0.0"},
            ]),
        ),
        channel(
            "widgets",
            "candidate",
            json!([
                {"name": "widgets.v2.0.0-rc.1", "skips": ["widgets.v1.2.0", "widgets.v0.9.0"]},
                {"name": "widgets.v1.2.0"},
            ]),
        ),
        bundle("widgets", "1.0.0", &[csv("1.0.0")]),
        bundle(
            "widgets",
            "1.1.0",
            &[
                csv("1.1.0"),
                property(
                    "olm.package.required",
                    json!({"versionRange": ">=1.0.0", "packageName": "inline"}),
                ),
            ],
        ),
        bundle("widgets", "1.1.1", &[]),
        bundle(
            "widgets",
            "1.2.0",
            &[
                csv("1.2.0"),
                property(
                    "olm.gvk.required",
                    json!({"version": "v1", "kind": "Other", "group": "example.org"}),
                ),
                property(
                    "olm.gvk",
                    json!({"group": "example.org", "kind": "Gadget", "version": "v1alpha1"}),
                ),
                property(
                    "olm.constraint",
                    json!({"failureMessage": "needs <x>", "cel": {"rule": "properties.exists(p, p.type == \"a\" && p.value > 1)"}}),
                ),
                property(
                    "custom.type",
                    json!({"z": 1, "a": {"c": [true, null, 2.5, 1e3], "b": "ü"}}),
                ),
            ],
        ),
        bundle(
            "widgets",
            "2.0.0-rc.1",
            &[
                csv("2.0.0-rc.1"),
                property("olm.maxOpenShiftVersion", json!("4.18")),
            ],
        ),
        json!({"schema": "olm.deprecations", "package": "widgets", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "use gadgets"},
            {"reference": {"schema": "olm.channel", "name": "candidate"}, "message": "use stable"},
            {"reference": {"schema": "olm.bundle", "name": "widgets.v1.0.0"}, "message": "old"},
        ]}),
        package("inline", "alpha"),
        channel(
            "inline",
            "alpha",
            json!([{"name": "inline.v0.1.0", "replaces": "inline.v0.0.9"}]),
        ),
        inline,
        json!({"schema": "example.org.note", "package": "widgets", "name": "a", "text": "kept", "number": 1.5}),
    ]
}

/// Writes documents into a folder, as JSON one after the other.
pub fn write(folder: &Path, documents: &[Value]) {
    let text: String = documents
        .iter()
        .map(|it| serde_json::to_string_pretty(it).unwrap() + "\n")
        .collect();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("catalog.json"), text).unwrap();
}
