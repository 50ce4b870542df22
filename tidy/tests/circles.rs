//! Which modules of a crate know each other in circles.
//!
//! A node of the graph is a file. An edge leads from a file to the one that defines what it names,
//! in a `use` or in any other path; names that a module passes on with `pub use` lead to where they
//! come from, and passing on the names of one's own children is no edge. Tests are left out.
//!
//! Not seen: methods, which name no module, and names that macros make.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};
use tidy::Repository;

/// Modules in the largest circle of each crate. They may only shrink.
const LARGEST: [(&str, usize); 39] = [
    ("groupcast", 3),
    ("qsm", 0),
    ("qsm-admin", 0),
    ("qsm-advise", 0),
    ("qsm-binding", 0),
    ("qsm-capi", 0),
    ("qsm-cli", 0),
    ("qsm-console", 0),
    ("qsm-dash", 0),
    ("qsm-demo", 3),
    ("qsm-dissector", 0),
    ("qsm-doctor", 0),
    ("qsm-exporter", 0),
    ("qsm-figures", 5),
    ("qsm-gms", 2),
    ("qsm-handshake", 0),
    ("qsm-history", 0),
    ("qsm-identity", 0),
    ("qsm-java", 0),
    ("qsm-link", 0),
    ("qsm-measure", 0),
    ("qsm-metrics", 0),
    ("qsm-net", 2),
    ("qsm-object", 0),
    ("qsm-origin", 0),
    ("qsm-parity", 0),
    ("qsm-plan", 0),
    ("qsm-processes", 0),
    ("qsm-proto", 7),
    ("qsm-python", 0),
    ("qsm-record", 0),
    ("qsm-relay", 0),
    ("qsm-relay-sim", 0),
    ("qsm-replica", 0),
    ("qsm-seal", 0),
    ("qsm-sim", 5),
    ("qsm-testnet", 0),
    ("qsm-wire", 6),
    ("qsm-x509", 0),
];

/// Names that lead to names: more than this is a circle of `use` declarations.
const STEPS_MAX: u8 = 16;

#[test]
fn modules_know_each_other_in_small_circles_only() {
    let repository = Repository::open().expect("the repository can be read");
    let mut crates: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for path in repository.ending(".rs") {
        let inside = path.strip_prefix("crates/");
        if let Some((name, file)) = inside.and_then(|path| path.split_once("/src/")) {
            let files = crates.entry(name).or_default();
            files.insert(file.to_owned(), repository.text(path));
        }
    }
    let limits = BTreeMap::from(LARGEST);
    assert!(
        crates.keys().eq(limits.keys()),
        "LARGEST is to list exactly {:?}",
        crates.keys()
    );
    let mut faults = Vec::new();
    for (name, files) in &crates {
        let graph = Graph::new(files);
        let circle = graph.largest_circle();
        let limit = limits[name];
        if circle.len() > limit {
            let edges = graph.edges_within(&circle).join("\n  ");
            faults.push(format!(
                "{name}: {} modules know each other in a circle, at most {limit}:\n  {edges}",
                circle.len()
            ));
        } else if circle.len() < limit {
            faults.push(format!("{name}: lower the limit to {}", circle.len()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The files of a crate, and which of them each knows.
struct Graph(BTreeMap<String, BTreeSet<String>>);

impl Graph {
    /// Of files by their paths below `src`.
    fn new(files: &BTreeMap<String, String>) -> Self {
        let mut modules = Modules {
            files,
            list: Vec::new(),
            references: Vec::new(),
        };
        for path in files.keys().filter(|path| is_root(path)) {
            modules.load(path, None);
        }
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for Reference { from, path, passed } in &modules.references {
            let Some(to) = modules.resolve(*from, path, STEPS_MAX) else {
                continue;
            };
            if *passed && modules.is_within(to, *from) {
                continue;
            }
            let (from, to) = (&modules.list[*from].file, &modules.list[to].file);
            if from != to {
                edges.entry(from.clone()).or_default().insert(to.clone());
            }
        }
        Self(edges)
    }

    /// The files of the largest circle; none if there is no circle.
    fn largest_circle(&self) -> BTreeSet<String> {
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            self.0.keys().map(|file| (file, self.reach(file))).collect();
        let circle = |file: &&String| {
            let others = reached[*file].iter().filter(|other| {
                let back = reached.get(**other);
                back.is_some_and(|reached| reached.contains(*file))
            });
            others.map(|other| (*other).clone()).collect()
        };
        let circles = self.0.keys().collect::<Vec<_>>();
        let circles = circles.iter().map(circle);
        circles.max_by_key(BTreeSet::len).unwrap_or_default()
    }

    fn edges_within(&self, circle: &BTreeSet<String>) -> Vec<String> {
        let mut edges = Vec::new();
        for file in circle {
            for other in self.0[file].intersection(circle) {
                edges.push(format!("{file} → {other}"));
            }
        }
        edges
    }

    /// All files that one leads to.
    fn reach(&self, file: &str) -> BTreeSet<&String> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = self.0.get(file).into_iter().flatten().collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(self.0.get(next).into_iter().flatten());
            }
        }
        reached
    }
}

fn is_root(path: &str) -> bool {
    let names: Vec<&str> = path.split('/').collect();
    matches!(
        names[..],
        ["lib.rs" | "main.rs"] | ["bin", _] | ["bin", _, "main.rs"]
    )
}

/// A file, or a module within one.
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names that it defines.
    names: BTreeSet<String>,
    /// Names that it takes from elsewhere.
    aliases: BTreeMap<String, Path>,
    /// Modules that it takes all names from.
    globs: Vec<Path>,
}

type Path = Vec<String>;

/// A path in a module's code.
struct Reference {
    from: usize,
    path: Path,
    /// It is there for others.
    passed: bool,
}

/// The modules of a crate, by number.
struct Modules<'a> {
    files: &'a BTreeMap<String, String>,
    list: Vec<Module>,
    references: Vec<Reference>,
}

impl Modules<'_> {
    /// Reads a file, and all its modules.
    fn load(&mut self, path: &str, parent: Option<usize>) -> usize {
        let text = &self.files[path];
        let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = match name {
            "mod.rs" | "main.rs" | "lib.rs" => folder.to_owned(),
            _ => path.trim_end_matches(".rs").to_owned(),
        };
        let module = self.add(path, parent);
        self.take(module, &folder, &syntax.items);
        module
    }

    fn add(&mut self, file: &str, parent: Option<usize>) -> usize {
        self.list.push(Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            names: BTreeSet::new(),
            aliases: BTreeMap::new(),
            globs: Vec::new(),
        });
        self.list.len() - 1
    }

    fn take(&mut self, module: usize, folder: &str, items: &[Item]) {
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    let below = format!("{folder}/{name}");
                    let below = below.trim_start_matches('/');
                    let child = if let Some((_, items)) = &inner.content {
                        let file = self.list[module].file.clone();
                        let child = self.add(&file, Some(module));
                        self.take(child, below, items);
                        child
                    } else {
                        let places = [format!("{below}.rs"), format!("{below}/mod.rs")];
                        let file = places.iter().find(|path| self.files.contains_key(*path));
                        let file = file.unwrap_or_else(|| panic!("{below} has no file"));
                        self.load(file, Some(module))
                    };
                    self.list[module].children.insert(name, child);
                }
                Item::Use(item) => {
                    let passed = !matches!(item.vis, syn::Visibility::Inherited);
                    for (path, name) in leaves(&item.tree) {
                        self.refer(module, path.clone(), passed);
                        match name {
                            Some(name) => drop(self.list[module].aliases.insert(name, path)),
                            None => self.list[module].globs.push(path),
                        }
                    }
                }
                item => {
                    self.list[module].names.extend(name_of(item));
                    let mut paths = Paths::default();
                    paths.visit_item(item);
                    for path in paths.0 {
                        self.refer(module, path, false);
                    }
                }
            }
        }
    }

    fn refer(&mut self, from: usize, path: Path, passed: bool) {
        self.references.push(Reference { from, path, passed });
    }

    /// The module that defines what a path in this one names; `None` for other crates' names.
    fn resolve(&self, from: usize, path: &[String], steps: u8) -> Option<usize> {
        let mut at = from;
        let mut rest = path;
        while let Some((first, more)) = rest.split_first() {
            match first.as_str() {
                "crate" => {
                    while let Some(parent) = self.list[at].parent {
                        at = parent;
                    }
                }
                "self" => {}
                "super" => at = self.list[at].parent?,
                _ => break,
            }
            rest = more;
        }
        let found = self.member(at, rest, steps);
        // What is not found there was made by a macro, unless the path is another crate's.
        found.or_else(|| (rest.len() < path.len()).then_some(at))
    }

    /// The module that defines what a path that begins in this one names.
    fn member(&self, at: usize, path: &[String], steps: u8) -> Option<usize> {
        let steps = steps.checked_sub(1)?;
        let module = &self.list[at];
        let (name, rest) = path.split_first()?;
        if let Some(child) = module.children.get(name) {
            return self.member(*child, rest, steps).or(Some(*child));
        }
        if module.names.contains(name) {
            return Some(at);
        }
        if let Some(alias) = module.aliases.get(name) {
            return self.resolve(at, &[alias, rest].concat(), steps);
        }
        let mut globs = module.globs.iter();
        globs.find_map(|glob| {
            let place = self.resolve(at, glob, steps)?;
            self.member(place, path, steps)
        })
    }

    /// Whether the module is this one, or lies within it.
    fn is_within(&self, module: usize, ancestor: usize) -> bool {
        let parent = |module: &usize| self.list[*module].parent;
        std::iter::successors(Some(module), parent).any(|module| module == ancestor)
    }
}

/// The paths of a `use` declaration with the names that they get; without one, all names there.
fn leaves(tree: &UseTree) -> Vec<(Path, Option<String>)> {
    match tree {
        UseTree::Path(path) => {
            let name = path.ident.to_string();
            let mut leaves = leaves(&path.tree);
            for (path, alias) in &mut leaves {
                if path.len() == 1 && path[0] == "self" {
                    // `a::{self}` and `a::{self as b}`.
                    path.clear();
                    if alias.as_deref() == Some("self") {
                        *alias = Some(name.clone());
                    }
                }
                path.insert(0, name.clone());
            }
            leaves
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            vec![(vec![name.clone()], Some(name))]
        }
        UseTree::Rename(rename) => {
            let path = vec![rename.ident.to_string()];
            vec![(path, Some(rename.rename.to_string()))]
        }
        UseTree::Glob(_) => vec![(Vec::new(), None)],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

/// All paths in an item.
#[derive(Default)]
struct Paths(Vec<Path>);

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter();
            self.add(names.map(|name| name.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(called) = &*call.func
            && let Some(name) = called.path.get_ident()
        {
            self.0.push(vec![name.to_string()]);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.0
            .extend(leaves(&item.tree).into_iter().map(|(path, _)| path));
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.take_tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }

    /// Who may see something is nothing that it knows.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

impl Paths {
    /// One small word alone is most likely a variable; functions are added where they are called.
    fn add(&mut self, path: Path) {
        let variable = |name: &String| name.starts_with(|letter: char| letter.is_lowercase());
        if path.len() > 1 || path.first().is_some_and(|name| !variable(name)) {
            self.0.push(path);
        }
    }

    /// Of a macro's arguments, which are not parsed: names joined by `::`.
    fn take_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::TokenTree;
        let mut path: Path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.add(core::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.take_tokens(group.stream());
                    colons = 0;
                }
                _ => colons = 0,
            }
        }
        self.add(path);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let test = attribute.parse_args::<syn::Ident>();
        attribute.path().is_ident("cfg") && test.is_ok_and(|name| name == "test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The circle and the edges of a crate of these files.
fn edges(files: &[(&str, &str)]) -> (usize, Vec<String>) {
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let graph = Graph::new(&files.collect());
    let all = graph.0.keys().chain(graph.0.values().flatten()).cloned();
    let all: BTreeSet<String> = all.collect();
    let known = graph.0.keys().cloned().collect();
    let mut edges = Vec::new();
    for file in all.intersection(&known) {
        edges.extend(
            graph.0[file]
                .iter()
                .map(|other| format!("{file} → {other}")),
        );
    }
    (graph.largest_circle().len(), edges)
}

#[test]
fn names_lead_to_the_file_that_defines_them() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b; pub use b::Deep;"),
        (
            "a.rs",
            "use std::fmt; use crate::{Deep, b::c::{self, Other as Mine}};",
        ),
        ("b/mod.rs", "mod c; pub(crate) use self::c::*;"),
        ("b/c.rs", "pub struct Deep; pub struct Other;"),
    ]);
    assert_eq!(found, (0, vec!["a.rs → b/c.rs".to_owned()]));
}

#[test]
fn paths_outside_of_declarations_count_in_macros_too() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        (
            "a.rs",
            "fn x() -> crate::b::B { vec![1, super::c::one()]; }",
        ),
        ("b.rs", "pub(super) struct B;"),
        (
            "c.rs",
            "pub fn one() {} mod inner { use super::super::b::B; }",
        ),
    ]);
    let expected = ["a.rs → b.rs", "a.rs → c.rs", "c.rs → b.rs"];
    assert_eq!(found, (0, expected.map(str::to_owned).to_vec()));
}

#[test]
fn a_parent_may_pass_names_on_but_not_use_them() {
    let child = ("a/b.rs", "use super::Base; pub struct B(Base);");
    let passed = ("a/mod.rs", "mod b; pub use self::b::B; pub struct Base;");
    let used = (
        "a/mod.rs",
        "mod b; pub use self::b::B; pub struct Base; fn x(b: B) {}",
    );
    let lib = ("lib.rs", "mod a;");
    assert_eq!(edges(&[lib, passed, child]).0, 0);
    assert_eq!(edges(&[lib, used, child]).0, 2);
}

#[test]
fn tests_do_not_count() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "#[cfg(test)] mod tests; #[cfg(test)] use crate::b::B; pub struct A;",
        ),
        ("a/tests.rs", "use crate::b::B;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ]);
    assert_eq!(found, (0, vec!["b.rs → a.rs".to_owned()]));
}

#[test]
fn a_circle_is_as_large_as_the_modules_that_reach_each_other() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; use d::D;"),
        ("a.rs", "pub struct A; use crate::b::B;"),
        ("b.rs", "pub struct B; use crate::c::C;"),
        ("c.rs", "pub struct C; use crate::a::A;"),
        ("d.rs", "pub struct D; use crate::a::A;"),
    ]);
    assert_eq!(found.0, 3);
}
