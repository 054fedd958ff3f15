//! The functions that a rule may call: those of CEL itself, and what Kubernetes adds, up to 1.34 (`pkg/cel/environment/base.go` of k8s.io/apiserver).

use std::ops::RangeInclusive;

use super::types::Type;

/// How a function is called, and what it gives.
pub(super) struct Function {
    pub name: &'static str,
    /// What stands before its name, for a method.
    pub of: Of,
    /// How many arguments it takes.
    pub takes: RangeInclusive<usize>,
    pub gives: Gives,
}

/// Of what something is a method.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Of {
    /// Of nothing: it stands alone.
    Nothing,
    /// Of text.
    Text,
    /// Of a list.
    List,
    /// Of what has no type of its own here, or of several types.
    Some,
}

/// What a function gives.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Texts,
    Some,
}

impl Gives {
    pub fn of_type<'s>(self) -> Type<'s> {
        match self {
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::Text => Type::String,
            Self::Bytes => Type::Bytes,
            Self::Duration => Type::Duration,
            Self::Timestamp => Type::Timestamp,
            Self::Texts => Type::list(Type::String),
            Self::Some => Type::Any,
        }
    }
}

impl Of {
    /// Whether there is no such method of what has this type.
    pub fn is_apart(self, from: &Type<'_>) -> bool {
        match self {
            Self::Text => from.is_apart(&Type::String),
            Self::List => from.is_apart(&Type::list(Type::Any)),
            // What has a single value has no methods, and neither has an object
            Self::Some => !matches!(
                from,
                Type::Any
                    | Type::Null
                    | Type::String
                    | Type::Bytes
                    | Type::Duration
                    | Type::Timestamp
                    | Type::List(_)
                    | Type::Map(_)
            ),
            Self::Nothing => false,
        }
    }
}

/// A function that stands alone.
const fn plain(name: &'static str, takes: RangeInclusive<usize>, gives: Gives) -> Function {
    method(Of::Nothing, name, takes, gives)
}

const fn method(of: Of, name: &'static str, takes: RangeInclusive<usize>, gives: Gives) -> Function {
    Function {
        name,
        of,
        takes,
        gives,
    }
}

/// What CEL has everywhere.
pub(super) const STANDARD: &[Function] = &[
    plain("size", 1..=1, Gives::Int),
    plain("int", 1..=1, Gives::Int),
    plain("uint", 1..=1, Gives::Uint),
    plain("double", 1..=1, Gives::Double),
    plain("bool", 1..=1, Gives::Bool),
    plain("string", 1..=1, Gives::Text),
    plain("bytes", 1..=1, Gives::Bytes),
    plain("duration", 1..=1, Gives::Duration),
    plain("timestamp", 1..=1, Gives::Timestamp),
    plain("type", 1..=1, Gives::Some),
    plain("dyn", 1..=1, Gives::Some),
    plain("matches", 2..=2, Gives::Bool),
    method(Of::Some, "size", 0..=0, Gives::Int),
    method(Of::Text, "contains", 1..=1, Gives::Bool),
    method(Of::Text, "startsWith", 1..=1, Gives::Bool),
    method(Of::Text, "endsWith", 1..=1, Gives::Bool),
    method(Of::Text, "matches", 1..=1, Gives::Bool),
    method(Of::Some, "getDate", 0..=1, Gives::Int),
    method(Of::Some, "getDayOfMonth", 0..=1, Gives::Int),
    method(Of::Some, "getDayOfWeek", 0..=1, Gives::Int),
    method(Of::Some, "getDayOfYear", 0..=1, Gives::Int),
    method(Of::Some, "getFullYear", 0..=1, Gives::Int),
    method(Of::Some, "getHours", 0..=1, Gives::Int),
    method(Of::Some, "getMilliseconds", 0..=1, Gives::Int),
    method(Of::Some, "getMinutes", 0..=1, Gives::Int),
    method(Of::Some, "getMonth", 0..=1, Gives::Int),
    method(Of::Some, "getSeconds", 0..=1, Gives::Int),
];

/// What OLM adds for constraints.
pub(super) const OLM: &[Function] = &[plain("semver_compare", 2..=2, Gives::Int)];

/// What Kubernetes adds. Macros that the parser does not know are among them: whoever walks through their arguments knows what they bind.
pub(super) const KUBERNETES: &[Function] = &[
    // Text
    method(Of::Text, "charAt", 1..=1, Gives::Text),
    method(Of::Some, "indexOf", 1..=2, Gives::Int),
    method(Of::Some, "lastIndexOf", 1..=2, Gives::Int),
    method(Of::List, "join", 0..=1, Gives::Text),
    method(Of::Text, "lowerAscii", 0..=0, Gives::Text),
    method(Of::Text, "upperAscii", 0..=0, Gives::Text),
    method(Of::Text, "replace", 2..=3, Gives::Text),
    method(Of::Text, "split", 1..=2, Gives::Texts),
    method(Of::Text, "substring", 1..=2, Gives::Text),
    method(Of::Text, "trim", 0..=0, Gives::Text),
    method(Of::Text, "format", 1..=1, Gives::Text),
    method(Of::Text, "find", 1..=1, Gives::Text),
    method(Of::Text, "findAll", 1..=2, Gives::Texts),
    plain("strings.quote", 1..=1, Gives::Text),
    // Lists
    method(Of::List, "isSorted", 0..=0, Gives::Bool),
    method(Of::List, "sum", 0..=0, Gives::Some),
    method(Of::List, "min", 0..=0, Gives::Some),
    method(Of::List, "max", 0..=0, Gives::Some),
    method(Of::List, "slice", 2..=2, Gives::Some),
    method(Of::List, "flatten", 0..=1, Gives::Some),
    method(Of::List, "distinct", 0..=0, Gives::Some),
    method(Of::List, "sort", 0..=0, Gives::Some),
    method(Of::List, "sortBy", 2..=2, Gives::Some),
    method(Of::List, "first", 0..=0, Gives::Some),
    method(Of::List, "last", 0..=0, Gives::Some),
    method(Of::Some, "reverse", 0..=0, Gives::Some),
    plain("lists.range", 1..=1, Gives::Some),
    plain("sets.contains", 2..=2, Gives::Bool),
    plain("sets.equivalent", 2..=2, Gives::Bool),
    plain("sets.intersects", 2..=2, Gives::Bool),
    // Comprehensions with an index or a key
    method(Of::Some, "all", 3..=3, Gives::Bool),
    method(Of::Some, "exists", 3..=3, Gives::Bool),
    method(Of::Some, "existsOne", 3..=3, Gives::Bool),
    method(Of::Some, "exists_one", 3..=3, Gives::Bool),
    method(Of::Some, "transformList", 3..=4, Gives::Some),
    method(Of::Some, "transformMap", 3..=4, Gives::Some),
    method(Of::Some, "transformMapEntry", 3..=4, Gives::Some),
    // What may not be there
    plain("optional.of", 1..=1, Gives::Some),
    plain("optional.ofNonZeroValue", 1..=1, Gives::Some),
    plain("optional.none", 0..=0, Gives::Some),
    plain("optional.unwrap", 1..=1, Gives::Some),
    method(Of::Some, "unwrapOpt", 0..=0, Gives::Some),
    method(Of::Some, "hasValue", 0..=0, Gives::Bool),
    method(Of::Some, "value", 0..=0, Gives::Some),
    method(Of::Some, "or", 1..=1, Gives::Some),
    method(Of::Some, "orValue", 1..=1, Gives::Some),
    method(Of::Some, "optMap", 2..=2, Gives::Some),
    method(Of::Some, "optFlatMap", 2..=2, Gives::Some),
    // Addresses
    plain("url", 1..=1, Gives::Some),
    plain("isURL", 1..=1, Gives::Bool),
    method(Of::Some, "getScheme", 0..=0, Gives::Text),
    method(Of::Some, "getHost", 0..=0, Gives::Text),
    method(Of::Some, "getHostname", 0..=0, Gives::Text),
    method(Of::Some, "getPort", 0..=0, Gives::Text),
    method(Of::Some, "getEscapedPath", 0..=0, Gives::Text),
    method(Of::Some, "getQuery", 0..=0, Gives::Some),
    plain("ip", 1..=1, Gives::Some),
    plain("isIP", 1..=1, Gives::Bool),
    plain("ip.isCanonical", 1..=1, Gives::Bool),
    method(Of::Some, "family", 0..=0, Gives::Int),
    method(Of::Some, "isUnspecified", 0..=0, Gives::Bool),
    method(Of::Some, "isLoopback", 0..=0, Gives::Bool),
    method(Of::Some, "isLinkLocalMulticast", 0..=0, Gives::Bool),
    method(Of::Some, "isLinkLocalUnicast", 0..=0, Gives::Bool),
    method(Of::Some, "isGlobalUnicast", 0..=0, Gives::Bool),
    plain("cidr", 1..=1, Gives::Some),
    plain("isCIDR", 1..=1, Gives::Bool),
    method(Of::Some, "containsIP", 1..=1, Gives::Bool),
    method(Of::Some, "containsCIDR", 1..=1, Gives::Bool),
    method(Of::Some, "ip", 0..=0, Gives::Some),
    method(Of::Some, "masked", 0..=0, Gives::Some),
    method(Of::Some, "prefixLength", 0..=0, Gives::Int),
    // Quantities and versions
    plain("quantity", 1..=1, Gives::Some),
    plain("isQuantity", 1..=1, Gives::Bool),
    method(Of::Some, "isInteger", 0..=0, Gives::Bool),
    method(Of::Some, "asInteger", 0..=0, Gives::Int),
    method(Of::Some, "asApproximateFloat", 0..=0, Gives::Double),
    method(Of::Some, "sign", 0..=0, Gives::Int),
    method(Of::Some, "add", 1..=1, Gives::Some),
    method(Of::Some, "sub", 1..=1, Gives::Some),
    method(Of::Some, "isLessThan", 1..=1, Gives::Bool),
    method(Of::Some, "isGreaterThan", 1..=1, Gives::Bool),
    method(Of::Some, "compareTo", 1..=1, Gives::Int),
    plain("semver", 1..=2, Gives::Some),
    plain("isSemver", 1..=2, Gives::Bool),
    method(Of::Some, "major", 0..=0, Gives::Int),
    method(Of::Some, "minor", 0..=0, Gives::Int),
    method(Of::Some, "patch", 0..=0, Gives::Int),
    // Formats
    plain("format.named", 1..=1, Gives::Some),
    plain("format.dns1123Label", 0..=0, Gives::Some),
    plain("format.dns1123Subdomain", 0..=0, Gives::Some),
    plain("format.dns1035Label", 0..=0, Gives::Some),
    plain("format.qualifiedName", 0..=0, Gives::Some),
    plain("format.dns1123LabelPrefix", 0..=0, Gives::Some),
    plain("format.dns1123SubdomainPrefix", 0..=0, Gives::Some),
    plain("format.dns1035LabelPrefix", 0..=0, Gives::Some),
    plain("format.labelValue", 0..=0, Gives::Some),
    plain("format.uri", 0..=0, Gives::Some),
    plain("format.uuid", 0..=0, Gives::Some),
    plain("format.byte", 0..=0, Gives::Some),
    plain("format.date", 0..=0, Gives::Some),
    plain("format.datetime", 0..=0, Gives::Some),
    method(Of::Some, "validate", 1..=1, Gives::Some),
];
