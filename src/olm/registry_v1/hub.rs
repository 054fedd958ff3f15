//! What OperatorHub asks of a bundle (`operatorhubv2`, `standardcapabilities`, `standardcategories`).

use http::Uri;
use semver::Version;
use serde_json::Value;

use super::read::Object;
use crate::olm::fbc::{
    self,
    blob::{Icon, Text},
};
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::text;

const CAPABILITIES: [&str; 5] = [
    "Basic Install",
    "Seamless Upgrades",
    "Full Lifecycle",
    "Deep Insights",
    "Auto Pilot",
];

const CATEGORIES: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Developer Tools",
    "Database",
    "Integration & Delivery",
    "Logging & Tracing",
    "Monitoring",
    "Modernization & Migration",
    "Networking",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
    "Observability",
];

/// What an operator may say that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Categories(Vec<String>);

/// Those of OperatorHub.
impl Default for Categories {
    fn default() -> Self {
        Self(CATEGORIES.map(str::to_owned).into())
    }
}

impl Categories {
    /// Those of another hub, as upstream's validator takes them: `{"categories": ["A", "B"]}`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn of(text: &str) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        struct Listed {
            categories: Vec<String>,
        }
        let Listed { categories } = serde_json::from_str(text)
            .map_err(|error| format!("{error}; accepted is {{\"categories\": [\"A\", \"B\"]}}"))?;
        Ok(Self(categories))
    }
}

pub(super) fn check(csv: &Object, categories: &Categories, found: &mut Vec<Finding>) {
    if csv.text("/spec/provider/name").trim().is_empty() {
        found.push(csv.finding(
            &codes::HUB_PROVIDER,
            "/spec/provider",
            "spec.provider.name is missing",
        ));
    }
    for (index, maintainer) in csv.list("/spec/maintainers").iter().enumerate() {
        let (name, email) = (text(maintainer, "/name"), text(maintainer, "/email"));
        if name.is_empty() || !is_address(email) {
            let message = format!("spec.maintainers[{index}] has the name {name:?} and the email {email:?}");
            found.push(csv.finding(
                &codes::HUB_MAINTAINER,
                &format!("/spec/maintainers/{index}"),
                message,
            ));
        }
    }
    for (index, link) in csv.list("/spec/links").iter().enumerate() {
        let (name, url) = (text(link, "/name"), text(link, "/url"));
        if name.is_empty() || !is_url(url) {
            let message = format!("spec.links[{index}] has the name {name:?} and the url {url:?}");
            found.push(csv.finding(&codes::HUB_LINK, &format!("/spec/links/{index}"), message));
        }
    }
    let version = csv.text("/spec/version");
    let is_unset = version
        .parse::<Version>()
        .is_ok_and(|version| version == Version::new(0, 0, 0));
    if version.is_empty() || is_unset {
        let message = format!("spec.version is {version:?}");
        found.push(csv.finding(&codes::HUB_VERSION, "/spec/version", message));
    }
    icon(csv, found);
    annotations(csv, categories, found);
}

/// `NAME@DOMAIN`, alone or as `Somebody <NAME@DOMAIN>`.
fn is_address(text: &str) -> bool {
    let address = match text
        .trim()
        .strip_suffix('>')
        .and_then(|text| text.rsplit_once('<'))
    {
        Some((_, address)) => address,
        None => text.trim(),
    };
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.contains("..")
            && !part.contains(|c: char| c.is_whitespace() || c.is_control() || "()<>[]:;@\\,\"".contains(c))
    };
    address
        .rsplit_once('@')
        .is_some_and(|(name, domain)| is_part(name) && is_part(domain))
}

/// With a scheme, or a path of its own: what can be asked for.
fn is_url(text: &str) -> bool {
    let is_path = text.starts_with('/');
    let has_scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        let is_known = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        !rest.is_empty()
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(is_known)
    });
    let is_web = text.starts_with("http:") || text.starts_with("https:");
    (is_path || has_scheme)
        && !text.contains(|c: char| c.is_control() || c == ' ')
        && (!is_web || text.parse::<Uri>().is_ok())
}

fn icon(csv: &Object, found: &mut Vec<Finding>) {
    let icons = csv.list("/spec/icon");
    if icons.is_empty() {
        return found.push(csv.finding(&codes::HUB_ICON_MISSING, "/spec", "spec.icon is missing"));
    }
    if icons.len() > 1 {
        let message = format!("spec.icon has {} elements", icons.len());
        found.push(csv.finding(&codes::HUB_ICON, "/spec/icon", message));
    }
    for (index, icon) in icons.iter().enumerate() {
        if let Err(why) = check_icon(icon) {
            let message = format!("spec.icon[{index}] {why}");
            found.push(csv.finding(&codes::HUB_ICON, &format!("/spec/icon/{index}"), message));
        }
    }
}

/// Whether there is an image, of the type that it says.
pub(super) fn check_icon(icon: &Value) -> Result<(), String> {
    let icon = Icon {
        base64data: Text(text(icon, "/base64data").into()),
        mediatype: Text(text(icon, "/mediatype").into()),
    };
    if icon.base64data.is_empty() {
        Err("is empty".to_owned())
    } else {
        fbc::check_icon(&icon)
    }
}

fn annotations(csv: &Object, categories: &Categories, found: &mut Vec<Finding>) {
    let annotation = |name: &str| csv.body["metadata"]["annotations"][name].as_str();
    if let Some(level) = annotation("capabilities")
        && !CAPABILITIES.contains(&level)
    {
        let message = format!(
            "capabilities is {level:?}; accepted are {}",
            CAPABILITIES.join(", ")
        );
        found.push(csv.finding(
            &codes::HUB_CAPABILITIES,
            "/metadata/annotations/capabilities",
            message,
        ));
    }
    for category in annotation("categories")
        .into_iter()
        .flat_map(|all| all.split(','))
    {
        let category = category.trim();
        if !categories.0.iter().any(|accepted| accepted == category) {
            let message = format!(
                "categories names {category:?}; accepted are {}",
                categories.0.join(", ")
            );
            found.push(csv.finding(
                &codes::HUB_CATEGORIES,
                "/metadata/annotations/categories",
                message,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_urls_are_known_by_their_form() {
        for good in ["a@example.org", "A B <a.b@example.org>", "a+b@localhost"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "@example.org",
            "a@",
            "a b@example.org",
            "a@exa mple.org",
            "a..b@example.org",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
        for good in ["https://example.org/a?b", "mailto:a@example.org", "/docs"] {
            assert!(is_url(good), "{good}");
        }
        for bad in ["", "example.org", "https://exa mple.org", "://a", "http://"] {
            assert!(!is_url(bad), "{bad}");
        }
    }
}
