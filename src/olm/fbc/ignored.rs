//! Which files a `.indexignore` excludes, as upstream reads it (`github.com/joelanford/ignore`, with the patterns of `go-git`). It is nearly what git does, but
//! of a file in a folder that is excluded it is asked again: `!sub/a.yaml` counts after `sub/`.

/// What is excluded; patterns that came later count more.
#[derive(Default)]
pub(super) struct Ignored(Vec<Pattern>);

struct Pattern {
    /// The folder that holds it, below which it counts.
    domain: Vec<String>,
    is_included: bool,
    is_of_folders: bool,
    way: Way,
}

enum Way {
    /// A name that may be anywhere.
    Name(Option<Name>),
    /// Down from the domain.
    Path(Vec<Part>),
}

enum Part {
    /// Before the first slash, or between two.
    Nothing,
    /// Any number of folders: `**`.
    Folders,
    /// With `**` beside something else, which upstream knows nothing of.
    Unknown,
    Name(Option<Name>),
}

/// The pattern of one name, as Go's `filepath.Match` has it; what is none there means nothing.
struct Name(Vec<Token>);

enum Token {
    Many,
    One,
    Is(char),
    Within {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Ignored {
    /// Adds the patterns of a text that is in a folder, given by the names on the way to it.
    pub(super) fn add(&mut self, text: &str, domain: &[&str]) {
        let lines = text.lines().map(str::trim);
        let patterns = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        self.0
            .extend(patterns.map(|pattern| Pattern::of(pattern, domain)));
    }

    /// Whether a file is excluded, given by the names on the way to it.
    pub(super) fn excludes(&self, path: &[&str]) -> bool {
        let last = self.0.iter().rev().find(|pattern| pattern.meets(path));
        last.is_some_and(|pattern| !pattern.is_included)
    }
}

impl Pattern {
    fn of(text: &str, domain: &[&str]) -> Self {
        let (text, is_included) = match text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (text, is_of_folders) = match text.strip_suffix('/') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        Self {
            domain: domain.iter().map(|&name| name.to_owned()).collect(),
            is_included,
            is_of_folders,
            way: if text.contains('/') {
                Way::Path(text.split('/').map(Part::of).collect())
            } else {
                Way::Name(Name::of(text))
            },
        }
    }

    fn meets(&self, path: &[&str]) -> bool {
        let within =
            path.len() > self.domain.len() && self.domain.iter().zip(path).all(|(one, other)| one == other);
        let path = path.get(self.domain.len()..).unwrap_or_default();
        within
            && match &self.way {
                Way::Name(name) => self.is_name_in(name.as_ref(), path),
                Way::Path(parts) => self.leads(parts, path),
            }
    }

    /// Whether it is the name of the file, or of a folder above it.
    fn is_name_in(&self, name: Option<&Name>, path: &[&str]) -> bool {
        let at = name.and_then(|name| path.iter().position(|other| name.is_met_by(other)));
        at.is_some_and(|at| !self.is_of_folders || at + 1 < path.len())
    }

    /// Whether it leads to the file, or to a folder above it.
    fn leads(&self, parts: &[Part], mut path: &[&str]) -> bool {
        let (mut is_met, mut may_go_down) = (false, false);
        for (index, part) in parts.iter().enumerate() {
            match part {
                Part::Nothing => may_go_down = false,
                Part::Folders if index + 1 == parts.len() => break,
                Part::Folders => may_go_down = true,
                Part::Unknown => return false,
                Part::Name(name) => {
                    let is_meant = |other: &&str| name.as_ref().is_some_and(|name| name.is_met_by(other));
                    let at = match path.first() {
                        None => return false,
                        Some(_) if may_go_down => path.iter().position(is_meant),
                        Some(first) if is_meant(first) => Some(0),
                        Some(_) => return false,
                    };
                    may_go_down = false;
                    is_met = at.is_some();
                    path = at.map_or(&[], |at| &path[at + 1..]);
                }
            }
        }
        is_met && !(self.is_of_folders && path.is_empty())
    }
}

impl Part {
    fn of(text: &str) -> Self {
        match text {
            "" => Self::Nothing,
            "**" => Self::Folders,
            _ if text.contains("**") => Self::Unknown,
            _ => Self::Name(Name::of(text)),
        }
    }
}

impl Name {
    /// None where a bracket or an escape does not end.
    fn of(text: &str) -> Option<Self> {
        let (mut tokens, mut rest) = (Vec::new(), text.chars());
        while let Some(character) = rest.next() {
            tokens.push(match character {
                '*' => Token::Many,
                '?' => Token::One,
                '\\' => Token::Is(rest.next()?),
                '[' => within(&mut rest)?,
                itself => Token::Is(itself),
            });
        }
        Some(Self(tokens))
    }

    /// When it fails behind a star, that star means one character more; those before it need not be asked again.
    fn is_met_by(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut at, mut star) = (0, 0, None);
        while at < name.len() {
            match self.0.get(token) {
                Some(Token::Many) => {
                    star = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(one) if one.is_met_by(name[at]) => {
                    (token, at) = (token + 1, at + 1);
                    continue;
                }
                _ => {}
            }
            let Some((after, from)) = star else {
                return false;
            };
            star = Some((after, from + 1));
            (token, at) = (after + 1, from + 1);
        }
        self.0[token..].iter().all(|token| matches!(token, Token::Many))
    }
}

impl Token {
    fn is_met_by(&self, character: char) -> bool {
        match self {
            Self::Many | Self::One => true,
            Self::Is(other) => *other == character,
            Self::Within { is_negated, ranges } => {
                let is_within = ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&character));
                is_within != *is_negated
            }
        }
    }
}

/// What stands in brackets, behind the first.
fn within(rest: &mut std::str::Chars<'_>) -> Option<Token> {
    let is_negated = rest.as_str().starts_with('^');
    if is_negated {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        if rest.as_str().starts_with(']') && !ranges.is_empty() {
            rest.next();
            return Some(Token::Within { is_negated, ranges });
        }
        let low = bound(rest)?;
        let mut high = low;
        if rest.as_str().starts_with('-') {
            rest.next();
            high = bound(rest)?;
        }
        ranges.push((low, high));
    }
}

fn bound(rest: &mut std::str::Chars<'_>) -> Option<char> {
    match rest.next()? {
        '-' | ']' => None,
        '\\' => rest.next(),
        itself => Some(itself),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const PATHS: [&str; 15] = [
        "a.md",
        "a.txt",
        "b.yaml",
        "x",
        "sub/a.md",
        "sub/b.yaml",
        "sub/x",
        "sub/deep/a.md",
        "sub/deep/b.yaml",
        "other/sub/a.md",
        "other/x/b.yaml",
        "a{1}",
        "a-1",
        "a]",
        "A.md",
    ];

    /// What upstream's modules exclude of them.
    #[rstest]
    #[case("*.{md,txt}", &[])]
    #[case("*.md", &["a.md", "sub/a.md", "sub/deep/a.md", "other/sub/a.md", "A.md"])]
    #[case("sub/", &["sub/a.md", "sub/b.yaml", "sub/x", "sub/deep/a.md", "sub/deep/b.yaml", "other/sub/a.md"])]
    #[case("sub/\n!sub/a.md", &["sub/b.yaml", "sub/x", "sub/deep/a.md", "sub/deep/b.yaml", "other/sub/a.md"])]
    #[case("/sub", &["sub/a.md", "sub/b.yaml", "sub/x", "sub/deep/a.md", "sub/deep/b.yaml"])]
    #[case("/a.md", &["a.md"])]
    #[case("sub/*.md", &["sub/a.md"])]
    #[case("**/a.md", &["a.md", "sub/a.md", "sub/deep/a.md", "other/sub/a.md"])]
    #[case("sub/**", &["sub/a.md", "sub/b.yaml", "sub/x", "sub/deep/a.md", "sub/deep/b.yaml"])]
    #[case("sub/**/b.yaml", &["sub/b.yaml", "sub/deep/b.yaml"])]
    #[case("**/sub/", &["sub/a.md", "sub/b.yaml", "sub/x", "sub/deep/a.md", "sub/deep/b.yaml", "other/sub/a.md"])]
    #[case("x/", &["other/x/b.yaml"])]
    #[case("!*.md", &[])]
    #[case("*\n!*.yaml", &["a.md", "a.txt", "x", "sub/a.md", "sub/x", "sub/deep/a.md", "other/sub/a.md", "a{1}", "a-1", "a]", "A.md"])]
    #[case("a[]1]", &[])]
    #[case("a[-1]", &[])]
    #[case("a[\\-]1", &["a-1"])]
    #[case("a[^.]1", &["a-1"])]
    #[case("a?1", &["a-1"])]
    #[case("a**", &["a.md", "a.txt", "sub/a.md", "sub/deep/a.md", "other/sub/a.md", "a{1}", "a-1", "a]"])]
    #[case("sub/a**", &[])]
    #[case("**", &["a.md", "a.txt", "b.yaml", "x", "sub/a.md", "sub/b.yaml", "sub/x", "sub/deep/a.md", "sub/deep/b.yaml", "other/sub/a.md", "other/x/b.yaml", "a{1}", "a-1", "a]", "A.md"])]
    #[case("**/", &["sub/a.md", "sub/b.yaml", "sub/x", "sub/deep/a.md", "sub/deep/b.yaml", "other/sub/a.md", "other/x/b.yaml"])]
    #[case("*/", &["sub/a.md", "sub/b.yaml", "sub/x", "sub/deep/a.md", "sub/deep/b.yaml", "other/sub/a.md", "other/x/b.yaml"])]
    #[case("/", &[])]
    #[case("//", &[])]
    #[case("sub//a.md", &["sub/a.md"])]
    #[case("[", &[])]
    #[case("a\\", &[])]
    #[case("[a-b].*", &["a.md", "a.txt", "b.yaml", "sub/a.md", "sub/b.yaml", "sub/deep/a.md", "sub/deep/b.yaml", "other/sub/a.md", "other/x/b.yaml"])]
    #[case("[b-a].md", &[])]
    #[case("\\!x", &[])]
    #[case("# x\n  x  ", &["x", "sub/x", "other/x/b.yaml"])]
    #[case("sub/deep", &["sub/deep/a.md", "sub/deep/b.yaml"])]
    #[case("deep/a.md", &[])]
    #[case("/**/deep/", &["sub/deep/a.md", "sub/deep/b.yaml"])]
    #[case("other/**/a.md", &["other/sub/a.md"])]
    #[case("**/deep/*", &["sub/deep/a.md", "sub/deep/b.yaml"])]
    #[case("a.md/", &[])]
    #[case("sub\\/a.md", &[])]
    #[case("*.MD", &[])]
    #[case("[[:alpha:]].md", &[])]
    #[case("?.*\n!a.*\na.t*", &["a.txt", "b.yaml", "sub/b.yaml", "sub/deep/b.yaml", "other/x/b.yaml", "A.md"])]
    #[case("a{1}", &["a{1}"])]
    #[case("**/**/b.yaml", &["b.yaml", "sub/b.yaml", "sub/deep/b.yaml", "other/x/b.yaml"])]
    #[case("s*b/a.md", &["sub/a.md"])]
    #[case("[^a]*.yaml", &["b.yaml", "sub/b.yaml", "sub/deep/b.yaml", "other/x/b.yaml"])]
    #[case("***", &["a.md", "a.txt", "b.yaml", "x", "sub/a.md", "sub/b.yaml", "sub/x", "sub/deep/a.md", "sub/deep/b.yaml", "other/sub/a.md", "other/x/b.yaml", "a{1}", "a-1", "a]", "A.md"])]
    fn a_file_is_excluded_as_upstream_excludes_it(#[case] patterns: &str, #[case] expected: &[&str]) {
        let mut ignored = Ignored::default();
        ignored.add(patterns, &[]);
        let is_excluded = |path: &&str| ignored.excludes(&path.split('/').collect::<Vec<_>>());
        assert_eq!(
            PATHS.into_iter().filter(is_excluded).collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn patterns_count_below_their_folder_and_the_last_that_is_met_decides() {
        let mut ignored = Ignored::default();
        ignored.add("*.md", &[]);
        ignored.add("!*.md\nb", &["sub"]);
        assert!(ignored.excludes(&["a.md"]) && ignored.excludes(&["sub", "b"]));
        assert!(
            !ignored.excludes(&["sub", "a.md"]) && !ignored.excludes(&["b"]) && !ignored.excludes(&["sub"])
        );
    }
}
