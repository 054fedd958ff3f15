//! The rules of bundles.

use super::rules;

rules! {
    // Files
    BUNDLE_LAYOUT = Error "bundle-layout":
        "A bundle has a folder manifests/ and a folder metadata/, and in the first one files alone, none of them hidden.",
        "The unpacker of OLM reads these two, and no folder within the first. Links that lead to folders, and hidden files, upstream's tools refuse.",
        "Move the file, or rename or take out a hidden one.";
    MANIFEST_UNREADABLE = Error "manifest-unreadable":
        "A file of the bundle can be read, is UTF-8 and has at most 4 MiB.",
        "The unpacker of OLM fails on one that cannot, and takes 1 MiB of all of them together.",
        "Mend the file, or take it out of the bundle.";
    MANIFEST_SYNTAX = Error "manifest-syntax":
        "A file of the bundle is YAML or JSON, and an object.",
        "The unpacker of OLM fails on one that is not.",
        "Mend the syntax at that line.";
    MANIFEST_SEVERAL = Error "manifest-several":
        "A file of manifests/ holds one object.",
        "OLM and its tools read the first document of a file and say nothing of the others: they are never installed.",
        "Give each object a file of its own.";
    MANIFEST_TWICE = Warning "manifest-twice":
        "A field is there once in its object.",
        "The last one counts, for OLM, its tools and kubectl, which say nothing. Strict readers refuse the file, and people may take the first for what counts.",
        "Take one of the two out.";
    MANIFEST_IDENTITY = Error "manifest-identity":
        "An object has apiVersion, kind and a metadata.name that Kubernetes takes.",
        "OLM cannot create it otherwise.",
        "Write what is missing.";
    MANIFEST_FIELD = Error "manifest-field":
        "A field of an object that Kubernetes knows holds what its type does.",
        "The API server refuses the object, and so do tools that read it.",
        "Write the field as the message says.";
    MANIFEST_FIELD_UNKNOWN = Warning "manifest-field-unknown":
        "A field of an object of a kind of Kubernetes is one that Kubernetes knows.",
        "The API server drops one that it does not know and says nothing; upstream's tools do not look. Known are the fields of Kubernetes up to 1.37.",
        "Mend its name, or take it out.";
    MANIFEST_METADATA = Error "manifest-metadata":
        "An object names no namespace, and has labels, annotations and finalizers that Kubernetes takes.",
        "OLM creates everything in the namespace in which the operator is installed, and upstream's tools refuse an object with another. The API server refuses the rest.",
        "Leave out or mend the field that the message names.";
    MANIFEST_DUPLICATE = Error "manifest-duplicate":
        "No object is there twice.",
        "OLM creates everything in one namespace, so the second takes the place of the first. Upstream's tools do not look.",
        "Rename one, or leave it out.";
    MANIFEST_KIND = Error "manifest-kind":
        "An object of manifests/ is of a kind that OLM installs.",
        "OLM fails the whole InstallPlan with UnsupportedResource. Upstream's tools let PodMonitor pass, which OLM does not.",
        "Let the operator create the object, or leave it out.";
    API_REMOVED = Error "api-removed":
        "An object is of an API version that Kubernetes still has.",
        "It was taken away with Kubernetes 1.22, 1.25 or 1.26, so the InstallPlan fails on every cluster since.",
        "Write the version that the message names.";
    OBJECT_SIZE = Error "object-size":
        "An object is smaller than what the API server and its store take: 1.5 MiB, and its annotations 256 KiB.",
        "The InstallPlan fails when OLM creates it. Upstream's tools do not look.",
        "Shorten examples, descriptions and icons, or split the object.";
    BUNDLE_SIZE = Error "bundle-size":
        "The manifests, compressed by gzip and in base64, fit into one ConfigMap: 1 MiB.",
        "OLM unpacks a bundle into one, and fails if it does not fit.",
        "Shorten descriptions in the definitions' schemas, or ship fewer versions of them.";
    BUNDLE_SIZE_NEAR = Warning "bundle-size-near":
        "The manifests, compressed, leave room below 1 MiB.",
        "At 1 MiB OLM can no longer unpack the bundle.",
        "Shorten descriptions in the definitions' schemas, or ship fewer versions of them.";

    // metadata/
    BUNDLE_ANNOTATION = Error "bundle-annotation":
        "metadata/annotations.yaml says what the bundle is: its format, its folders, its package.",
        "The image of the bundle carries the same as labels, and OLM and opm go by them.",
        "Write the annotation as the message says.";
    BUNDLE_CHANNELS = Error "bundle-channels":
        "metadata/annotations.yaml names the channels, and a default one that is not empty.",
        "Tools that make a catalog put the bundle into these.",
        "Name at least one channel, such as stable.";
    BUNDLE_CHANNEL_NAME = Warning "bundle-channel-name":
        "A channel's name holds no white space and no control characters.",
        "Upstream's tools take any name. In a Dockerfile's label it needs quotes, which its tools do not write, and OLM v1 can subscribe to none that holds white space.",
        "Give the channel a name of one word, such as stable-v1.";
    BUNDLE_DEFAULT_CHANNEL = Warning "bundle-default-channel":
        "The default channel is one of the channels.",
        "A catalog that is made from this bundle alone has no such channel, and is refused. Upstream's tools do not look.",
        "Add it to the channels, or name another.";
    BUNDLE_DEPENDENCY = Error "bundle-dependency":
        "A dependency names what OLM's resolver can look for.",
        "The operator could never be installed.",
        "Write the dependency as the message says.";
    BUNDLE_PROPERTY = Error "bundle-property":
        "A property of metadata/properties.yaml has a type, and a value of the shape of its type.",
        "Tools that make a catalog copy it there, and catalogs with another one are refused.",
        "Write the property as the message says.";

    // The ClusterServiceVersion
    CSV_COUNT = Error "csv-count":
        "A bundle has exactly one ClusterServiceVersion.",
        "It is what OLM installs, and the bundle takes its name.",
        "Leave one in manifests/, and give each of the others a bundle of its own.";
    CSV_FIELD = Error "csv-field":
        "A field of the ClusterServiceVersion holds what its schema says, and fields that it requires are there.",
        "The API server refuses the object, or OLM cannot read it. OLM writes what is missing as an empty text, 0 or false, and lists and objects as null: an error is what is refused so, here or in the Deployment, ServiceAccount or Role that OLM makes of it. Upstream's tools hardly look.",
        "Set the field, or write it as the message says.";
    CSV_FIELD_MISSING = Warning "csv-field-missing":
        "Fields that the schema of a ClusterServiceVersion requires are there, even where OLM gets along without.",
        "OLM writes an empty text, 0 or false in its place, which the API server takes, and that may not be what was meant. `kubectl apply` of the file fails. Upstream's tools do not look.",
        "Set the field that the message names.";
    CSV_FIELD_UNKNOWN = Warning "csv-field-unknown":
        "A field of the ClusterServiceVersion is one that its schema knows.",
        "OLM drops one that it does not know and says nothing; one in other capitals it reads, and `kubectl apply` does not. Upstream's tools do not look. Of Deployments and rules the fields of Kubernetes up to 1.37 are known.",
        "Mend its name, or take it out.";
    CSV_NAME = Error "csv-name":
        "The ClusterServiceVersion, and those that it replaces and skips, have names that are labels' values, too.",
        "OLM puts the name into labels, which hold 63 characters.",
        "Shorten the name: lower-case letters, digits, dots and dashes.";
    CSV_VERSION = Error "csv-version":
        "spec.version is a semantic version.",
        "Upgrades go by it, and catalogs refuse a bundle without one.",
        "Write it like 1.2.3 or 1.2.3-rc.1.";
    CSV_NAME_VERSION = Warning "csv-name-version":
        "The version in the name of the ClusterServiceVersion is that of spec.version.",
        "Upgrades go by spec.version, and people read the name: in a Subscription, an InstallPlan, `replaces`. Upstream's tools do not compare the two.",
        "Name it OPERATOR.vVERSION with the version of spec.version, or mend spec.version.";
    CSV_RELEASE = Error "csv-release":
        "A ClusterServiceVersion with spec.release is named PACKAGE-vVERSION-RELEASE.",
        "Catalogs refuse the bundle otherwise.",
        "Rename it as the message says.";
    CSV_UPGRADE = Error "csv-upgrade":
        "What the ClusterServiceVersion replaces and skips is another one, and olm.skipRange is a range of versions.",
        "OLM would look for itself, or read no range and never upgrade. Upstream's tools do not look.",
        "Name older versions; write the range like `>=1.0.0 <1.2.0`.";
    CSV_MIN_KUBE_VERSION = Error "csv-min-kube-version":
        "spec.minKubeVersion is a semantic version.",
        "OLM fails the ClusterServiceVersion on every cluster otherwise.",
        "Write it with three numbers, such as 1.25.0.";
    CSV_MIN_KUBE_VERSION_MISSING = Warning "csv-min-kube-version-missing":
        "spec.minKubeVersion says which clusters the operator runs on.",
        "Without it OLM installs the operator on any.",
        "Set `spec.minKubeVersion`: in the base, or by `roadstead bundle generate --min-kube-version`.";
    CSV_INSTALL_MODES = Error "csv-install-modes":
        "spec.installModes names each mode at most once, and at least one that is supported.",
        "OLM fails the ClusterServiceVersion. That a mode is there twice passes upstream's tools: their check of it does nothing.",
        "Name OwnNamespace, SingleNamespace, MultiNamespace and AllNamespaces once each.";
    CSV_ANNOTATION = Error "csv-annotation":
        "Annotations that OLM reads are written as OLM writes them.",
        "OLM does not see one in another case, such as olm.skiprange.",
        "Write it as the message says.";
    CSV_PROPERTIES_ANNOTATION = Warning "csv-properties-annotation":
        "Properties are in metadata/properties.yaml.",
        "The annotation olm.properties is written by tools that make a catalog, and would be overwritten.",
        "Move them there.";
    CSV_EXAMPLES = Error "csv-examples":
        "The annotation alm-examples is a JSON list of objects, each of an API that the operator provides.",
        "Consoles offer them as the beginning of a new object, and fail on anything else.",
        "Mend the JSON, or take out the example.";
    CSV_EXAMPLE_MISSING = Warning "csv-example-missing":
        "There is an example of each API that the operator provides.",
        "Consoles offer it as the beginning of a new object.",
        "Add one to the annotation alm-examples.";
    CSV_EXAMPLE_INVALID = Warning "csv-example-invalid":
        "An example is valid by the schema of its definition.",
        "Whoever creates it as it is gets an error. Upstream's tools do not look.",
        "Write the field as the message says.";
    IMAGE_WITHOUT_REGISTRY = Warning "image-without-registry":
        "An image is named with its registry.",
        "Nodes guess one, mostly Docker Hub, where somebody else may have that name.",
        "Write it with the registry; `roadstead bundle generate --image` does that for the operator's own.";
    CSV_RELATED_IMAGE = Error "csv-related-image":
        "spec.relatedImages names images.",
        "Tools that mirror a catalog copy these images, and fail on a name that is none.",
        "Write HOST/PATH:TAG or HOST/PATH@DIGEST.";
    CSV_DEPLOYMENT = Error "csv-deployment":
        "spec.install has the strategy deployment, and Deployments of names of their own that the API server takes.",
        "The ClusterServiceVersion never becomes Succeeded.",
        "Write the Deployment as the message says.";
    CSV_WEBHOOK = Error "csv-webhook":
        "spec.webhookdefinitions keeps the rules of OLM and of the API server.",
        "OLM fails the ClusterServiceVersion, or waits for ever. Upstream's tools hardly look.",
        "Write the webhook as the message says.";
    CSV_SERVICE_ACCOUNT = Error "csv-service-account":
        "No ServiceAccount of manifests/ is one of those that the Deployments run as.",
        "OLM creates those itself, and the two would take it from each other.",
        "Leave the ServiceAccount out of manifests/.";

    // CustomResourceDefinitions
    CRD_OWNED = Error "crd-owned":
        "What the ClusterServiceVersion owns is defined in manifests/, and what is defined there is owned.",
        "OLM waits for a definition that never comes, or installs one that nobody sees to.",
        "Bring spec.customresourcedefinitions.owned and manifests/ together.";
    CRD_OWNED_VERSION = Error "crd-owned-version":
        "A version that the ClusterServiceVersion owns is served.",
        "OLM leaves the ClusterServiceVersion Pending: \"CRD version not served\". Upstream's tools do not look.",
        "Serve the version, or do not own it.";
    CRD_NAMES = Error "crd-names":
        "A definition is named PLURAL.GROUP, and its names and scope are what Kubernetes takes.",
        "The API server refuses the definition, and with it the InstallPlan.",
        "Write the field as the message says.";
    CRD_VERSIONS = Error "crd-versions":
        "A definition has versions of names of their own, of which exactly one is stored.",
        "The API server refuses the definition, and with it the InstallPlan.",
        "Set `storage: true` for one version.";
    CRD_SCHEMA = Error "crd-schema":
        "Each version has a structural OpenAPI schema.",
        "The API server refuses the definition. Upstream's tools leave out every error within the schema.",
        "Write the schema as the message says.";
    CRD_COLUMNS = Error "crd-columns":
        "Printer columns, selectable fields and subresources lead to fields by simple paths.",
        "The API server refuses the definition, and with it the InstallPlan.",
        "Write the path like .spec.replicas.";
    CRD_CONVERSION = Error "crd-conversion":
        "spec.conversion is what Kubernetes takes.",
        "The API server refuses the definition, and with it the InstallPlan.",
        "Write the field as the message says.";
    CRD_CONVERSION_LEFT = Warning "crd-conversion-left":
        "A definition of a bundle leaves spec.conversion to OLM.",
        "OLM fills it in once the webhook is there. One that comes with the bundle leads to a Service that is not there yet, and an upgrade that lists objects meanwhile fails. Upstream's tools do not look.",
        "Take out `spec.conversion`, and describe the webhook in spec.webhookdefinitions.";

    // Other objects
    PDB_BLOCKS = Warning "pdb-blocks":
        "A PodDisruptionBudget lets pods go.",
        "With maxUnavailable 0 or minAvailable 100% no node can be drained.",
        "Leave at least one pod to be taken.";
    PRIORITY_CLASS_DEFAULT = Warning "priority-class-default":
        "A PriorityClass of a bundle is not the cluster's default.",
        "It would change the priority of everybody's pods.",
        "Set `globalDefault: false`.";
    RBAC_DISRUPTION = Warning "rbac-disruption":
        "Roles do not let the operator change PodDisruptionBudgets without need.",
        "They can keep nodes from being drained.",
        "Take out the rule if the operator makes none.";
    RBAC_SCC = Warning "rbac-scc":
        "Roles do not let the operator change OpenShift's own SecurityContextConstraints.",
        "Everybody's pods depend on them.",
        "Name another one in resourceNames.";

    // With operatorhub
    HUB_PROVIDER = Error "hub-provider":
        "spec.provider.name is there.",
        "OperatorHub refuses the bundle otherwise.",
        "Set `spec.provider.name`: in the base, or by `roadstead bundle generate --provider`.";
    HUB_MAINTAINER = Error "hub-maintainer":
        "Each of spec.maintainers has a name, and an e-mail address.",
        "OperatorHub refuses the bundle otherwise.",
        "Set `name` and `email`: in the base, or by `roadstead bundle generate --maintainer`.";
    HUB_LINK = Error "hub-link":
        "Each of spec.links has a name, and a URL.",
        "OperatorHub refuses the bundle otherwise.",
        "Set `name`, and `url` with its scheme: in the base, or by `roadstead bundle generate --link`.";
    HUB_VERSION = Error "hub-version":
        "spec.version is there, and not 0.0.0.",
        "OperatorHub refuses the bundle otherwise.",
        "Set `spec.version`.";
    HUB_ICON = Error "hub-icon":
        "There is one icon, of the type that it says: GIF, JPEG, PNG or SVG.",
        "OperatorHub refuses the bundle otherwise.",
        "Give one element of spec.icon with `base64data` and `mediatype`.";
    HUB_ICON_MISSING = Warning "hub-icon-missing":
        "There is an icon.",
        "OperatorHub shows a placeholder otherwise.",
        "Set `spec.icon`: in the base, or by `roadstead bundle generate --icon`.";
    HUB_CAPABILITIES = Error "hub-capabilities":
        "The annotation capabilities is a level that there is.",
        "OperatorHub refuses the bundle otherwise.",
        "Write Basic Install, Seamless Upgrades, Full Lifecycle, Deep Insights or Auto Pilot.";
    HUB_CATEGORIES = Error "hub-categories":
        "The annotation categories names categories that there are, separated by commas.",
        "OperatorHub refuses the bundle otherwise.",
        "Choose among those that the message names.";

    // With good-practices
    PRACTICE_REQUESTS = Warning "practice-requests":
        "Each container of the Deployments requests CPU and memory.",
        "Without them the pod is the first to go, and a quota may refuse it.",
        "Set `resources.requests` of the container in the Deployment.";
    PRACTICE_CRD_DESCRIPTION = Warning "practice-crd-description":
        "What the ClusterServiceVersion owns and requires has a description.",
        "Consoles show it to whoever chooses what to create.",
        "Describe the root of the definition's schema, of which `roadstead bundle generate` takes it, or set `description` in the base.";
    PRACTICE_CHANNEL = Warning "practice-channel":
        "Channels begin with candidate, fast or stable.",
        "So users know how ripe what they get is.",
        "Name it like stable or stable-v1.";
    PRACTICE_CRD_CREATION = Warning "practice-crd-creation":
        "The operator needs no permission to create CustomResourceDefinitions.",
        "OLM installs and upgrades them, and checks stored objects before it does.",
        "Ship the definitions in the bundle, and take out the rule.";
    PRACTICE_NAME = Warning "practice-name":
        "The ClusterServiceVersion is named OPERATOR.vVERSION.",
        "Tools and people read the version off it.",
        "Name it like example-operator.v1.2.3.";

    // With olm-v1
    V1_INSTALL_MODE = Error "v1-install-mode":
        "AllNamespaces is among the install modes that are supported.",
        "OLM v1 installs for the whole cluster only.",
        "Support AllNamespaces.";
    V1_API_SERVICE = Error "v1-api-service":
        "The operator owns no APIService.",
        "OLM v1 does not install any.",
        "Serve the API by a CustomResourceDefinition.";
    V1_DEPENDENCY = Error "v1-dependency":
        "The bundle depends on no other.",
        "OLM v1 has no resolver, and refuses olm.gvk.required, olm.package.required and olm.constraint.",
        "Take the dependency out, and tell users of it.";
    V1_CLOSED_VERSION = Warning "v1-closed-version":
        "No version of a definition waits for the operator to open it.",
        "OLM v1 would close it again, so the operator leaves it closed.",
        "Generate a bundle for OLM v1 with `roadstead bundle generate --for olm-v1`.";
    V1_WEBHOOK = Warning "v1-webhook":
        "The bundle has no webhooks.",
        "OLM v1 refuses webhooks unless a gate of its operator-controller says who issues certificates: cert-manager or OpenShift.",
        "Tell users of the gate: WebhookProviderCertManager or WebhookProviderOpenshiftServiceCA.";

    // With scorecard
    SCORE_VALIDATION = Warning "score-validation":
        "The schema of a definition knows each field of spec and status that its example has.",
        "The scorecard's test olm-crds-have-validation fails.",
        "Describe the field in the schema.";
    SCORE_RESOURCES = Warning "score-resources":
        "What the ClusterServiceVersion owns names the kinds of objects that the operator makes for it.",
        "The scorecard's test olm-crds-have-resources fails, and consoles cannot show them.",
        "Set `resources` of the owned definition in the base: kind, name and version of each.";
    SCORE_SPEC_DESCRIPTOR = Warning "score-spec-descriptor":
        "Each field of an example's spec has a descriptor.",
        "The scorecard's test olm-spec-descriptors fails, and consoles show the field as text.",
        "Add it to `specDescriptors`.";
    SCORE_STATUS_DESCRIPTOR = Warning "score-status-descriptor":
        "What has a status in its example has descriptors of it.",
        "The scorecard's test olm-status-descriptors fails, and consoles do not show the status.",
        "Add `statusDescriptors`.";

    // With multiarch
    MULTIARCH_UNSUPPORTED = Error "multiarch-unsupported":
        "Each image that is deployed or related is for every platform that labels of the ClusterServiceVersion promise: operatorframework.io/arch.ARCHITECTURE and operatorframework.io/os.OS, and without any amd64 and linux.",
        "Catalogs offer the operator on nodes of these platforms, where the image does not start.",
        "Build the image for the platform, or take out the label. Where the image is not for linux/amd64, label what it is for as supported.";
    MULTIARCH_LABEL = Warning "multiarch-label":
        "What the operator's images are for is labelled as supported.",
        "Without the label, catalogs do not offer the operator there. amd64 and linux need none while they are all that there is.",
        "Label each as supported, amd64 and linux too: once there is one label, only what labels name counts.";
    MULTIARCH_UNEVEN = Warning "multiarch-uneven":
        "Each image is for the platforms for which the operator's images are.",
        "Where the operator runs, what it needs does not.",
        "Build the image for the platform, too, or leave it unlabelled.";
    MULTIARCH_AFFINITY = Warning "multiarch-affinity":
        "Pods of the Deployments ask for nodes by kubernetes.io/arch and kubernetes.io/os, and for those on which all of their images run.",
        "On a cluster with nodes of several platforms, they may be put where an image does not start, or not where they could run.",
        "Name the platforms in nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution: one term with an expression In for each of the two labels.";
    MULTIARCH_UNSEEN = Warning "multiarch-unseen":
        "What an image is for, its registry tells.",
        "Otherwise nothing is known of the image, and it is left out of what is judged.",
        "Push the image, correct its name, or log in to its registry as the message says.";
}
