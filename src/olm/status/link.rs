//! One link of the chain, as it is judged, and what is wrong with it.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// Which object a link is about; in the order of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// Where the package comes from.
    CatalogSource,
    /// What the catalog has of it.
    PackageManifest,
    /// Which namespaces operators of the Subscription's namespace look after.
    OperatorGroup,
    /// What somebody wants.
    Subscription,
    /// The unpacking of what the resolver has chosen.
    Bundle,
    /// What OLM is going to do.
    InstallPlan,
    /// What the installed version says of being upgraded.
    OperatorCondition,
    /// An installed version.
    ClusterServiceVersion,
    /// What runs.
    Deployment,
}

impl Kind {
    /// As Kubernetes writes it, but for the one that has a shorter name that everybody uses.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::CatalogSource => "CatalogSource",
            Self::PackageManifest => "PackageManifest",
            Self::OperatorGroup => "OperatorGroup",
            Self::Subscription => "Subscription",
            Self::Bundle => "Bundle",
            Self::InstallPlan => "InstallPlan",
            Self::OperatorCondition => "OperatorCondition",
            Self::ClusterServiceVersion => "CSV",
            Self::Deployment => "Deployment",
        }
    }
}

/// How a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mark {
    /// As it should be.
    Ok,
    /// Something is still to come, from OLM or from a person.
    Waiting,
    /// Time will not mend it.
    Wrong,
    /// It could not be read.
    Unseen,
}

impl Mark {
    /// As it stands before a link.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Waiting => "waiting",
            Self::Wrong => "WRONG",
            Self::Unseen => "unseen",
        }
    }
}

/// A fact about a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// As it was read, or put together of what was.
    Text(String),
    /// When something was: text tells how long ago.
    Time(Timestamp),
}

impl Serialize for Detail {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Time(time) => serializer.collect_str(time),
        }
    }
}

/// Somebody's words, and whose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quote {
    /// Such as `condition ResolutionFailed`; empty where the words are ours.
    pub of: String,
    /// The words.
    pub words: String,
}

/// What somebody can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Help {
    /// What, and what comes of it.
    pub advice: String,
    /// What to type; nothing but reading where the advice says nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What is wrong, or waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// One sentence.
    pub what: String,
    /// Why, in the words of who knows it.
    pub why: Vec<Quote>,
    /// What helps, the likeliest first.
    pub helps: Vec<Help>,
}

impl Trouble {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: Vec::new(),
            helps: Vec::new(),
        }
    }

    /// Adds somebody's words; nothing where there are none.
    pub(super) fn quoting(mut self, of: impl Into<String>, words: impl Into<String>) -> Self {
        let quote = Quote {
            of: of.into(),
            words: words.into(),
        };
        if !quote.words.is_empty() && !self.why.contains(&quote) {
            self.why.push(quote);
        }
        self
    }

    /// Adds an explanation of our own.
    pub(super) fn because(self, words: impl Into<String>) -> Self {
        self.quoting("", words)
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.helps.push(Help {
            advice: advice.into(),
            command: None,
        });
        self
    }

    pub(super) fn command(mut self, advice: impl Into<String>, command: impl Into<String>) -> Self {
        self.helps.push(Help {
            advice: advice.into(),
            command: Some(command.into()),
        });
        self
    }
}

/// One link of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Which object.
    pub kind: Kind,
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// How it is.
    pub mark: Mark,
    /// In one word or a few, upstream's own where it has one.
    pub state: String,
    /// Since when it is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// More about it, in an order that reads well.
    #[serde(serialize_with = "as_map")]
    pub details: Vec<(&'static str, Detail)>,
    /// What is wrong, or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// Whether the trouble follows from that of another link, which tells more if it has any.
    #[serde(skip)]
    pub(super) follows: bool,
}

fn as_map<S: Serializer>(details: &[(&'static str, Detail)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(details.iter().map(|(name, detail)| (name, detail)))
}

impl Link {
    /// A link that is well until something else is said.
    pub(super) fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            mark: Mark::Ok,
            state: String::new(),
            since: None,
            details: Vec::new(),
            trouble: None,
            follows: false,
        }
    }

    pub(super) fn state(mut self, state: impl Into<String>) -> Self {
        self.state = state.into();
        self
    }

    pub(super) fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    /// Adds a fact; nothing where it is empty.
    pub(super) fn detail(mut self, name: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.details.push((name, Detail::Text(text)));
        }
        self
    }

    pub(super) fn time(mut self, name: &'static str, time: Option<Timestamp>) -> Self {
        self.details.extend(time.map(|time| (name, Detail::Time(time))));
        self
    }

    pub(super) fn wrong(mut self, trouble: Trouble) -> Self {
        self.mark = Mark::Wrong;
        self.trouble = Some(trouble);
        self
    }

    pub(super) fn waits(mut self, trouble: Trouble) -> Self {
        self.mark = Mark::Waiting;
        self.trouble = Some(trouble);
        self
    }

    /// Wrong, unless it is so new that OLM may only not have come to it.
    pub(super) fn wrong_unless_new(self, is_new: bool, trouble: Trouble) -> Self {
        if is_new {
            self.waits(trouble)
        } else {
            self.wrong(trouble)
        }
    }

    /// It is another link's turn.
    pub(super) fn not_yet(mut self) -> Self {
        self.mark = Mark::Waiting;
        self
    }

    pub(super) fn unseen(mut self, why: &str) -> Self {
        self.mark = Mark::Unseen;
        self.state = format!("cannot be read: {why}");
        self
    }

    pub(super) fn follows(mut self) -> Self {
        self.follows = true;
        self
    }
}
