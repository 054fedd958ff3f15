//! Graphs as people look at them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::graph::{Graph, Node, Place};
use super::plain;
use crate::olm::fbc::upgrades::{Because, End, Step};
use crate::olm::findings::listed;

/// What hangs from each node. A long row of upgrades stays in one column: of what hangs from a node, the largest part goes on below it, and the
/// others branch off. So the tree is as wide as the logarithm of its nodes at most.
struct Tree<'a> {
    below: BTreeMap<&'a str, Vec<&'a Node<'a>>>,
    sizes: BTreeMap<&'a str, usize>,
}

impl<'a> Tree<'a> {
    fn of(graph: &'a Graph<'a>) -> Self {
        let next: BTreeMap<&str, &str> = graph
            .nodes
            .iter()
            .filter(|node| Some(node.name) != graph.head)
            .filter_map(|node| Some((node.name, node.next?.to)))
            .collect();
        let mut tree = Self {
            below: BTreeMap::new(),
            sizes: BTreeMap::new(),
        };
        let mut waits: BTreeMap<&str, usize> = BTreeMap::new();
        for node in &graph.nodes {
            if let Some(to) = next.get(node.name) {
                tree.below.entry(to).or_default().push(node);
                *waits.entry(to).or_default() += 1;
            }
        }
        // From the leaves on, each node counts for the one above it once all below it have.
        let leaves = graph.nodes.iter().map(|node| node.name);
        let mut ready: Vec<&str> = leaves.filter(|name| !waits.contains_key(name)).collect();
        while let Some(name) = ready.pop() {
            let Some(&to) = next.get(name) else { continue };
            let below = tree.sizes.get(name).copied().unwrap_or_default();
            *tree.sizes.entry(to).or_default() += below + 1;
            if let Some(left) = waits.get_mut(to) {
                *left -= 1;
                if *left == 0 {
                    ready.push(to);
                }
            }
        }
        tree
    }

    fn size(&self, node: &Node<'_>) -> usize {
        self.sizes.get(node.name).copied().unwrap_or_default()
    }

    /// What branches off a node, and what goes on below it.
    fn split(&self, name: &str) -> (Vec<&'a Node<'a>>, Option<&'a Node<'a>>) {
        let mut nodes = self.below.get(name).cloned().unwrap_or_default();
        let is_replaced = |node: &Node<'_>| node.next.is_some_and(|next| next.because == Because::Replaces);
        let largest = nodes
            .iter()
            .enumerate()
            .max_by_key(|(_, node)| (self.size(node), is_replaced(node)));
        let largest = largest.map(|(place, _)| place).map(|place| nodes.remove(place));
        (nodes, largest)
    }

    fn draw(&self, out: &mut impl Write, first: &str, rest: &str, node: &Node<'_>) -> io::Result<()> {
        writeln!(out, "{first}● {}", label(node))?;
        let mut name = node.name;
        loop {
            let (branches, last) = self.split(name);
            for branch in branches {
                self.draw(out, &format!("{rest}├─"), &format!("{rest}│ "), branch)?;
            }
            let Some(last) = last else { return Ok(()) };
            writeln!(out, "{rest}● {}", label(last))?;
            name = last.name;
        }
    }
}

/// `widgets.v1.0.0  replaced; deprecated: use 1.1`
fn label(node: &Node<'_>) -> String {
    let mut told = Vec::new();
    told.extend(node.next.map(|next| match next.because {
        Because::Replaces => "replaced".to_owned(),
        Because::Skips => "skipped".to_owned(),
        Because::SkipRange(range) => format!("in {range}"),
    }));
    told.extend(place(node).map(str::to_owned));
    told.extend(node.deprecated.map(|why| format!("deprecated: {}", plain(why))));
    match told[..] {
        [] => plain(node.name),
        _ => format!("{}  {}", plain(node.name), told.join("; ")),
    }
}

fn place(node: &Node<'_>) -> Option<&'static str> {
    match node.place {
        Place::Channel => None,
        Place::OtherChannel => Some("of another channel"),
        Place::Nowhere => Some("not in the catalog"),
    }
}

/// The channel, its tree, and below it who is not led to the head.
pub(super) fn text(out: &mut impl Write, graph: &Graph<'_>) -> io::Result<()> {
    let (package, channel) = (plain(graph.package), plain(graph.channel));
    let default = if graph.is_default {
        ", the default channel"
    } else {
        ""
    };
    writeln!(out, "{package}, channel {channel}{default}")?;
    if let Some(why) = graph.deprecated {
        writeln!(out, "deprecated: {}", plain(why))?;
    }
    if let Some(why) = &graph.broken {
        return writeln!(out, "nobody is upgraded: {why}\n");
    }
    let head = graph.nodes.iter().find(|node| Some(node.name) == graph.head);
    if let Some(head) = head {
        Tree::of(graph).draw(out, "", "", head)?;
    }
    // That whoever is elsewhere cannot come here is no wonder; that whoever is here is left alone is
    let lost = |here: bool| {
        let lost = graph.nodes.iter().filter(|node| node.end == End::Stranded);
        lost.filter(move |node| (node.place == Place::Channel) == here)
    };
    if let Some(Step { to, because }) = graph.back {
        writeln!(
            out,
            "! the head is upgraded to {} ({because}), and up again for ever",
            plain(to)
        )?;
    }
    for node in lost(true) {
        writeln!(out, "! {} is never upgraded", plain(node.name))?;
    }
    let elsewhere = listed(lost(false).map(|node| node.name));
    if !elsewhere.is_empty() {
        writeln!(out, "not upgraded in this channel: {}", plain(&elsewhere))?;
    }
    writeln!(out)
}

/// What is drawn of a channel: its entries and whoever is upgraded in it, by names that no other channel has in the picture.
struct Picture<'a> {
    title: String,
    nodes: Vec<(String, &'a Node<'a>)>,
    /// From, to, and why.
    edges: Vec<(String, String, Because<'a>)>,
}

impl<'a> Picture<'a> {
    fn of(number: usize, graph: &'a Graph<'a>) -> Self {
        let id = |place: usize| format!("c{number}n{place}");
        let is_drawn = |node: &Node<'_>| node.place == Place::Channel || node.next.is_some();
        let nodes = graph.nodes.iter().enumerate().filter(|(_, node)| is_drawn(node));
        let nodes: Vec<(String, &Node<'_>)> = nodes.map(|(place, node)| (id(place), node)).collect();
        let ids: BTreeMap<&str, &String> = nodes.iter().map(|(id, node)| (node.name, id)).collect();
        let edges = nodes.iter().filter_map(|(from, node)| {
            let next = node.next?;
            let to = ids.get(next.to).copied()?;
            Some((from.clone(), to.clone(), next.because))
        });
        Self {
            title: match &graph.broken {
                None => format!("{}, channel {}", graph.package, graph.channel),
                Some(why) => format!("{}, channel {}: {why}", graph.package, graph.channel),
            },
            edges: edges.collect(),
            nodes,
        }
    }
}

/// A flowchart of all graphs, a box for each.
pub(super) fn mermaid(out: &mut impl Write, graphs: &[Graph<'_>]) -> io::Result<()> {
    writeln!(out, "graph LR")?;
    for (number, graph) in graphs.iter().enumerate() {
        let Picture { title, nodes, edges } = Picture::of(number, graph);
        writeln!(out, "  subgraph c{number} [\"{}\"]", for_mermaid(&title))?;
        for (id, node) in &nodes {
            writeln!(out, "    {id}[\"{}\"]", for_mermaid(node.name))?;
        }
        for (from, to, because) in edges {
            match because {
                Because::Replaces => writeln!(out, "    {from} --> {to}")?,
                Because::Skips => writeln!(out, "    {from} -. skipped .-> {to}")?,
                Because::SkipRange(range) => {
                    writeln!(out, "    {from} -. \"{}\" .-> {to}", for_mermaid(range))?;
                }
            }
        }
        writeln!(out, "  end")?;
        for (id, node) in &nodes {
            if Some(node.name) == graph.head {
                writeln!(out, "  style {id} stroke-width:3px")?;
            }
            if node.deprecated.is_some() {
                writeln!(out, "  style {id} stroke-dasharray:4")?;
            }
            if node.end != End::Head {
                writeln!(out, "  style {id} stroke:red")?;
            }
        }
    }
    Ok(())
}

fn for_mermaid(text: &str) -> String {
    text.replace('#', "#35;")
        .replace('"', "#quot;")
        .replace('<', "#lt;")
        .replace('>', "#gt;")
}

/// The same for Graphviz.
pub(super) fn dot(out: &mut impl Write, graphs: &[Graph<'_>]) -> io::Result<()> {
    writeln!(out, "digraph {{\n  rankdir=LR;\n  node [shape=box];")?;
    for (number, graph) in graphs.iter().enumerate() {
        let Picture { title, nodes, edges } = Picture::of(number, graph);
        writeln!(
            out,
            "  subgraph cluster_{number} {{\n    label={};",
            for_dot(&title)
        )?;
        for (id, node) in &nodes {
            let head = if Some(node.name) == graph.head {
                ", penwidth=3"
            } else {
                ""
            };
            let deprecated = node.deprecated.map_or("", |_| ", style=dashed");
            let lost = if node.end == End::Head { "" } else { ", color=red" };
            writeln!(
                out,
                "    {id} [label={}{head}{deprecated}{lost}];",
                for_dot(node.name)
            )?;
        }
        writeln!(out, "  }}")?;
        for (from, to, because) in edges {
            let style = match because {
                Because::Replaces => String::new(),
                Because::Skips => " [style=dotted, label=\"skipped\"]".to_owned(),
                Because::SkipRange(range) => format!(" [style=dotted, label={}]", for_dot(range)),
            };
            writeln!(out, "  {from} -> {to}{style};")?;
        }
    }
    writeln!(out, "}}")
}

fn for_dot(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
