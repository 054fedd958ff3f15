//! `roadstead catalog list`, `graph` and `diff`: What a catalog means to those who subscribe to it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::cli::held::{Held, Reading};
use crate::cli::{Failure, Outcome, print};
use crate::olm::fbc::view::graph::{Format, Graph, Way};
use crate::olm::fbc::view::{Package, View, diff, graph, list};
use crate::olm::findings;

#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// The catalog's folder, or its image: HOST/PATH:TAG, HOST/PATH@DIGEST, or a layout.
    #[arg(value_name = "DIR|IMAGE", default_value = "catalog")]
    catalog: PathBuf,
    /// Only this package: its channels, and its bundles.
    #[arg(long, short)]
    package: Option<String>,
    /// How it is written. As JSON, all of it is told.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten, next_help_heading = "Images")]
    reading: Reading,
}

#[derive(Debug, clap::Args)]
pub(super) struct Shown {
    /// The catalog's folder, or its image: HOST/PATH:TAG, HOST/PATH@DIGEST, or a layout.
    #[arg(value_name = "DIR|IMAGE", default_value = "catalog")]
    catalog: PathBuf,
    /// Only this package.
    #[arg(long, short)]
    package: Option<String>,
    /// Only this channel of each package.
    #[arg(long, short)]
    channel: Option<String>,
    /// The way of what is installed, a version or a bundle's name, to the head of each channel. Fails if it leads to none. Needs --package if there are
    /// several; told as text or JSON.
    #[arg(long, value_name = "VERSION")]
    from: Option<String>,
    /// How it is written.
    #[arg(long, short, value_enum, default_value_t = Picture::Text)]
    output: Picture,
    #[command(flatten, next_help_heading = "Images")]
    reading: Reading,
}

#[derive(Debug, clap::Args)]
pub(super) struct Compared {
    /// The catalog of before: its folder or its image.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The catalog that is to take its place: its folder or its image.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// How it is written.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Fail if something is taken away from somebody who subscribed.
    #[arg(long)]
    strict: bool,
    #[command(flatten, next_help_heading = "Images")]
    reading: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a person.
    Text,
    /// For a program.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// A tree for each channel: what is upgraded to a bundle hangs from it.
    Text,
    /// For a program.
    Json,
    /// A flowchart for Markdown.
    Mermaid,
    /// Graphviz.
    Dot,
}

impl From<Picture> for Format {
    fn from(picture: Picture) -> Self {
        match picture {
            Picture::Text => Self::Text,
            Picture::Json => Self::Json,
            Picture::Mermaid => Self::Mermaid,
            Picture::Dot => Self::Dot,
        }
    }
}

pub(super) fn list(args: &List) -> Outcome {
    let view = read(&args.catalog, &args.reading)?;
    let mut packages = view.list();
    if let Some(name) = &args.package {
        package(&view, &args.catalog, name)?;
        packages.retain(|package| package.name == name);
    }
    print(|out| match (args.output, &packages[..]) {
        (Output::Json, _) => json(out, &packages),
        (Output::Text, [package]) if args.package.is_some() => list::write_package(out, package),
        (Output::Text, _) => list::write_packages(out, &packages),
    })
}

pub(super) fn graph(args: &Shown) -> Outcome {
    let view = read(&args.catalog, &args.reading)?;
    let packages: Vec<(&str, &Package)> = match &args.package {
        Some(name) => vec![(name, package(&view, &args.catalog, name)?)],
        None => view
            .packages
            .iter()
            .map(|(name, package)| (name.as_str(), package))
            .collect(),
    };
    if let Some(channel) = &args.channel
        && !packages
            .iter()
            .any(|(_, package)| package.channels.contains_key(channel))
    {
        let there: BTreeSet<&str> = packages
            .iter()
            .flat_map(|(_, package)| package.channels.keys().map(String::as_str))
            .collect();
        let there = findings::listed(there);
        return Err(format!("--channel is {channel:?}; there are {there}").into());
    }
    let is_asked = |name: &str| args.channel.as_ref().is_none_or(|channel| channel == name);
    match &args.from {
        Some(from) => ways(args, &packages, from, is_asked),
        None => {
            let all = packages
                .iter()
                .flat_map(|(name, package)| graph::graphs(name, package));
            let graphs: Vec<Graph<'_>> = all.filter(|graph| is_asked(graph.channel)).collect();
            print(|out| graph::write(out, args.output.into(), &graphs))
        }
    }
}

fn ways(args: &Shown, packages: &[(&str, &Package)], from: &str, is_asked: impl Fn(&str) -> bool) -> Outcome {
    if matches!(args.output, Picture::Mermaid | Picture::Dot) {
        return Err("--from tells a way, which has no picture: --output must be text or json".into());
    }
    let &[(name, package)] = packages else {
        let names = findings::listed(packages.iter().map(|(name, _)| *name));
        return Err(format!("--from needs --package: there are {names}").into());
    };
    let mut ways: Vec<Way<'_>> = graph::ways(name, package, from)?;
    ways.retain(|way| is_asked(way.channel));
    print(|out| match args.output {
        Picture::Json => json(out, &ways),
        _ => graph::write_ways(out, &ways),
    })?;
    if ways.iter().any(Way::arrives) {
        return Ok(());
    }
    let asked = args
        .channel
        .as_ref()
        .map_or("any channel".to_owned(), |channel| format!("channel {channel}"));
    Err(format!("{from} does not get to the head of {asked}").into())
}

pub(super) fn diff(args: &Compared) -> Outcome {
    let (old, new) = (read(&args.old, &args.reading)?, read(&args.new, &args.reading)?);
    let changes = diff::changes(&old, &new);
    print(|out| match args.output {
        Output::Json => json(out, &changes),
        Output::Text => diff::write(out, &changes),
    })?;
    if args.strict && changes.iter().any(|change| change.takes_away) {
        return Err(format!("{} from subscribers, with --strict", diff::summary(&changes)).into());
    }
    Ok(())
}

/// A catalog in which something is wrong is shown all the same, since that may be why somebody looks.
fn read(catalog: &Path, reading: &Reading) -> Result<View, Failure> {
    let held = Held::catalog(catalog, reading)?;
    let view = View::read(held.folder())?;
    let errors = view.findings.errors;
    if errors > 0 {
        let catalog = catalog.display();
        let errors = findings::counted(errors, "error");
        eprintln!("note: {catalog} is not valid: `roadstead catalog validate {catalog}` tells of {errors}");
    }
    Ok(view)
}

fn package<'a>(view: &'a View, folder: &Path, name: &str) -> Result<&'a Package, String> {
    view.packages.get(name).ok_or_else(|| {
        let there = findings::listed(view.packages.keys().map(String::as_str));
        format!("--package is {name:?}; in {} there are {there}", folder.display())
    })
}

fn json<T: serde::Serialize>(out: &mut impl io::Write, value: &T) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}
