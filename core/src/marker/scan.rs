//! One pass over an environ, for all that it says of whose it is.
#![forbid(unsafe_code)]

use super::{Markers, Names, Run, Tails};
use crate::{Id128, procfs::Matcher};

/// By which run entry a process counts as ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// One of any installation.
    Any,
    /// One of this installation.
    Installation(Id128),
    /// That of this very run.
    Run(Id128),
}

/// Whose descendant an environ says that its process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// There is no run entry.
    None,
    /// There are some, and not the wanted one.
    Other,
    /// The wanted one is there. There may be others too: supervisors nest.
    Ours,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The kind's and the name's markers are there.
    pub named: bool,
    /// The nonce of the spawn that the process or an ancestor comes from.
    pub nonce: Option<Id128>,
    /// Whose descendant it is.
    pub tree: Tree,
}

/// Looks for markers, nonce and run entries in an environ that comes in pieces of any size. An entry without its NUL is none: it may be
/// cut.
#[derive(Debug)]
pub struct Scan<'a> {
    markers: Markers<'a>,
    cookie: Cookie,
    matcher: Matcher<'a, 2>,
    /// `=` and 32 digits.
    nonces: Tails<'a, 33>,
    runs: Tails<'a, { Run::LEN }>,
    nonce: Option<Id128>,
    tree: Tree,
}

impl<'a> Scan<'a> {
    /// For these markers and this cookie.
    pub fn new(names: &Names<'a>, markers: Markers<'a>, cookie: Cookie) -> Scan<'a> {
        let (nonces, runs) = (Tails::new(names.nonce), Tails::new(names.tree));
        Scan { matcher: markers.matcher(), markers, cookie, nonces, runs, nonce: None, tree: Tree::None }
    }

    /// The next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        self.matcher.feed(piece);
        let nonce = &mut self.nonce;
        // Of several the first counts.
        self.nonces.feed(piece, |tail| *nonce = nonce.or(tail.strip_prefix(b"=").and_then(Id128::parse)));
        let (tree, cookie) = (&mut self.tree, self.cookie);
        self.runs.feed(piece, |tail| {
            let ours = Run::parse(tail).map(|run| match cookie {
                Cookie::Any => true,
                Cookie::Installation(id) => run.installation == id,
                Cookie::Run(id) => run.id == id,
            });
            match ours {
                Some(true) => *tree = Tree::Ours,
                Some(false) if *tree == Tree::None => *tree = Tree::Other,
                _ => {}
            }
        });
    }

    /// What was found so far.
    pub fn carried(&self) -> Carried {
        let named = self.markers.proven(self.matcher.found());
        Carried { named, nonce: self.nonce, tree: self.tree }
    }
}
