//! The rules of catalogs.

use super::rules;

rules! {
    // Files and documents
    FILE_UNREADABLE = Error "file-unreadable":
        "A file of the catalog can be read, and has at most 256 MiB.",
        "opm reads every file below the folder that no .indexignore excludes, and refuses the catalog if one cannot be read or is no UTF-8.",
        "Mend the file, or name it in a .indexignore.";
    DOCUMENT_SYNTAX = Error "document-syntax":
        "A document is JSON or YAML, and an object.",
        "opm refuses the whole catalog if one document of one file cannot be parsed.",
        "Mend the syntax at that line, or name the file in a .indexignore if it is none of the catalog.";
    DUPLICATE_KEY = Error "duplicate-key":
        "No key is there twice in a document, however it is written.",
        "opm takes keys whatever their case, and refuses a document that has one twice, such as `name` and `Name`. Within a document, and of two that are written alike, it takes one and forgets the other.",
        "Leave one of them out.";
    SCHEMA_MISSING = Error "schema-missing":
        "A document says its schema.",
        "Without `schema` nobody knows what a document is, and opm refuses the catalog.",
        "Write `schema: olm.package`, `olm.channel`, `olm.bundle`, `olm.deprecations`, or one of your own.";
    FIELD_TYPE = Error "field-type":
        "A field holds what its schema says.",
        "opm cannot read a document of which a field has another type, and refuses the catalog.",
        "Write the field as the message says.";
    SCHEMA_NAME = Warning "schema-name":
        "A schema of one's own, and its package, begin with a letter or digit and hold letters, digits, dots, dashes and underscores.",
        "Newer servers key such documents by schema and package, and refuse to serve a catalog with other characters in them.",
        "Name it after the pattern [a-zA-Z0-9][a-zA-Z0-9._-]*.";

    // Packages
    PACKAGE_NAME = Error "package-name":
        "A package has a name that is a DNS label (RFC 1123).",
        "The name becomes the name of a PackageManifest.",
        "Use at most 63 of a-z, 0-9 and -, with a letter or digit at both ends.";
    PACKAGE_DUPLICATE = Error "package-duplicate":
        "There is one olm.package of a name.",
        "opm refuses a catalog in which a package is there twice.",
        "Rename one, or merge the two.";
    PACKAGE_UNKNOWN = Error "package-unknown":
        "What belongs to a package names one that is there.",
        "A channel, bundle or deprecation without its olm.package belongs nowhere, and opm refuses the catalog.",
        "Write the olm.package, or correct the name.";
    PACKAGE_WITHOUT_CHANNEL = Error "package-without-channel":
        "A package has a channel.",
        "Nobody could subscribe to a package without one; opm refuses the catalog.",
        "Add an olm.channel, or leave the package out.";
    DEFAULT_CHANNEL = Error "default-channel":
        "A package names one of its channels as the default.",
        "A Subscription that names no channel follows this one.",
        "Set `defaultChannel` to the name of one of its channels.";
    VERSION_DUPLICATE = Error "version-duplicate":
        "A version is released once in a package.",
        "Two bundles of one version, and of one release, leave OLM no order between them.",
        "Give each bundle a version of its own.";
    ICON = Warning "icon":
        "An icon is an image of the type that it says.",
        "Consoles show it; opm does not look at it.",
        "Set `base64data` and `mediatype` of the icon: image/svg+xml, image/png, image/jpeg or image/gif.";

    // Channels
    CHANNEL_NAME = Error "channel-name":
        "A channel has a name.",
        "A Subscription names it.",
        "Set `name`.";
    CHANNEL_WORD = Warning "channel-word":
        "A channel's name is one word.",
        "Annotations of bundles hold several channels, between commas and perhaps spaces: no bundle can name this one. opm does not look.",
        "Rename it, without spaces, commas and control characters, and tell those who subscribe.";
    CHANNEL_DUPLICATE = Error "channel-duplicate":
        "There is one channel of a name in a package.",
        "opm refuses a package with two.",
        "Merge their entries, or rename one.";
    CHANNEL_EMPTY = Error "channel-empty":
        "A channel has an entry.",
        "A Subscription to it could never be fulfilled.",
        "Add an entry, or leave the channel out.";
    ENTRY_DUPLICATE = Error "entry-duplicate":
        "A channel lists a bundle once.",
        "Two entries of one bundle contradict each other.",
        "Merge them.";
    ENTRY_WITHOUT_BUNDLE = Error "entry-without-bundle":
        "Every entry of a channel has its olm.bundle.",
        "OLM could not install it. `opm validate` finds this in the last channel of each package alone by this rule, and elsewhere as a bundle without properties.",
        "Add the olm.bundle, or take the entry out of the channel.";
    CHANNEL_HEADS = Error "channel-heads":
        "A channel has one head: one entry that no other replaces or skips.",
        "OLM installs the head, and upgrades everybody towards it. With two it could not choose, and without one there is a circle.",
        "Have the newest entry `replaces` or `skips` each of the others' last ones.";
    CHANNEL_CYCLE = Error "channel-cycle":
        "The chain of `replaces` never comes back to where it was.",
        "OLM would upgrade in a circle.",
        "Take one `replaces` of the circle out.";
    ENTRY_STRANDED = Error "entry-stranded":
        "Every entry is on the chain of `replaces` from the head, or skipped.",
        "Whoever has a version that is neither is never upgraded.",
        "Have the next higher entry replace it, or a higher one skip it.";
    SKIP_EMPTY = Error "skip-empty":
        "No entry of `skips` is empty.",
        "opm refuses it.",
        "Take it out.";
    SKIP_DANGLING = Note "skip-dangling":
        "What an entry skips is in its package.",
        "It does no harm, and is meant so where a version was taken out; where the name is mistyped, the version that was meant is not skipped.",
        "Check the name.";
    REPLACES_DANGLING = Note "replaces-dangling":
        "What the last entry replaces is in its package.",
        "It is meant so where older versions were taken out; whoever has that version is still upgraded.",
        "Check the name.";
    UPGRADE_PATH = Warning "upgrade-path":
        "Whoever has an entry's bundle is upgraded to the head.",
        "OLM upgrades to the first, from the head, that replaces it, skips it, or has its version in skipRange, among those that nothing skips. opm looks at no skipRange, and not at who skips.",
        "Let an entry on the way from the head replace or skip it, and take what is higher out of its skipRange.";
    REPLACES_ITSELF = Warning "replaces-itself":
        "No entry replaces or skips itself.",
        "Such an entry is never a head. opm accepts it where another one skips it.",
        "Take its own name out of `replaces` and `skips`.";
    SKIP_RANGE = Error "skip-range":
        "`skipRange` is a range of versions.",
        "opm and OLM read it as such, and refuse the catalog otherwise.",
        "Write it like `>=1.0.0 <1.2.0`; alternatives are separated by `||`.";

    // Bundles
    BUNDLE_NAME = Error "bundle-name":
        "A bundle has a name: that of its ClusterServiceVersion; with a release it is PACKAGE-vVERSION-RELEASE.",
        "Channels and Subscriptions name it.",
        "Set `name`.";
    BUNDLE_DUPLICATE = Error "bundle-duplicate":
        "There is one bundle of a name in a package.",
        "opm refuses a package with two.",
        "Leave one out, or give it the name of another version.";
    BUNDLE_WITHOUT_ENTRY = Error "bundle-without-entry":
        "Every bundle is in a channel.",
        "Nobody could ever be given it; opm refuses the catalog.",
        "Add an entry to a channel, or leave the bundle out.";
    BUNDLE_IMAGE = Error "bundle-image":
        "A bundle names its image, or holds its objects.",
        "OLM unpacks the image; without image and without olm.bundle.object there is nothing to install.",
        "Set `image`.";
    IMAGE_REFERENCE = Error "image-reference":
        "An image is named as container tools name one.",
        "Nobody could pull it, and opm refuses the catalog.",
        "Write it like registry.example.org/me/bundle@sha256:..., all but the tag in lower case.";
    IMAGE_BY_TAG = Note "image-by-tag":
        "A bundle's image is named by its digest.",
        "A tag may lead to something else later: then what was tested is not what is installed, and mirrors cannot copy it.",
        "Add the bundle by its digest, which `bundle push` prints: `roadstead catalog add IMAGE@sha256:...`, or --bundle-image for a folder.";
    PROPERTY_VALUE = Error "property-value":
        "A property's value has the shape that its type says.",
        "opm cannot read the bundle, and refuses the catalog.",
        "Write the value as the message says.";
    PACKAGE_PROPERTY = Error "package-property":
        "A bundle has one property olm.package, of its own package.",
        "It says the bundle's version.",
        "Write one property `olm.package` with `packageName` and `version`.";
    VERSION = Error "version":
        "A bundle's version is a semantic version.",
        "OLM orders by it.",
        "Write it like 1.2.3 or 1.2.3-rc.1: no leading v, no leading zeros, three numbers.";
    RELEASE = Error "release":
        "A release is at most 20 characters, shaped like what follows the dash in a semantic version, and never beside build metadata.",
        "It tells two builds of one version apart.",
        "Write it like 1 or alpha.2, and take what follows + out of the version.";
    CSV_METADATA_DUPLICATE = Error "csv-metadata-duplicate":
        "A bundle has at most one property olm.csv.metadata.",
        "`opm validate` accepts two, and `opm serve` then fails.",
        "Leave one out.";
    REQUIRED_RANGE = Warning "required-range":
        "olm.package.required names a package and a range of versions.",
        "OLM's resolver cannot fulfil another one: the bundle could never be installed. opm does not look.",
        "Write `versionRange` like `>=1.0.0 <2.0.0`.";
    CONSTRAINT = Warning "constraint":
        "olm.constraint holds one constraint that OLM knows, and at most 131072 bytes.",
        "OLM's resolver fails on another one, for every operator of the namespace. opm does not look.",
        "Write one of cel, package, gvk, all, any and not, as in OLM's documentation, and `failureMessage`.";
    MESSAGE_SIZE = Error "message-size":
        "What the server sends of a bundle stays below 4 MiB, the limit of gRPC's clients.",
        "OLM reads all bundles in one stream, so one that is too large hides the whole catalog. opm does not look.",
        "Shorten what the properties hold: examples, descriptions, objects; a ClusterServiceVersion among the objects is sent twice.";
    PACKAGE_MESSAGE_SIZE = Warning "package-message-size":
        "What the server tells a console of a bundle, a package or a document of a schema of your own stays below 4 MiB, the limit of gRPC's clients.",
        "OLM's packageserver leaves out a package whose head is too large, so consoles do not show it. opm does not look.",
        "Shorten the icon, which is sent twice, the description, the examples, or what is said of deprecations.";
    PLAN_SIZE = Warning "plan-size":
        "The manifests of a bundle without an image take at most 1 MiB.",
        "OLM writes them into its InstallPlan, of which etcd takes 1.5 MiB with all that is installed together. opm does not look.",
        "Push the bundle as an image, and set `image`; or shorten descriptions in its definitions.";
    MESSAGE_DEPTH = Warning "message-depth":
        "A document of a schema of your own is nested at most 128 deep.",
        "The server makes a message of it level by level, and answers that it has none of one that goes deeper. opm does not look.",
        "Put what is within into a text, or into a document of its own.";

    // Deprecations
    DEPRECATION_DUPLICATE = Error "deprecation-duplicate":
        "A package has one olm.deprecations, which names each thing once.",
        "opm refuses a second one.",
        "Merge them.";
    DEPRECATION_REFERENCE = Error "deprecation-reference":
        "A deprecation refers to a package (without a name), or to a channel or bundle that is there.",
        "opm refuses one that refers to nothing.",
        "Set `reference.schema` to olm.package, olm.channel or olm.bundle, and `reference.name` to what is there.";
    DEPRECATION_MESSAGE = Error "deprecation-message":
        "A deprecation says what users should do.",
        "The message is all that they see of it.",
        "Set `message`.";
}
