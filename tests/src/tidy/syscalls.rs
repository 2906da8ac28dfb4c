//! The page of system calls and the code that makes them say the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{Files, mask};

const PAGE: &str = "core/docs/syscalls.md";

/// The heads of each section, in their order.
const HEADS: [&str; 6] = ["Arguments", "Returns", "Errors", "Since", "Refused", "Made by"];

/// The page of system calls, taken apart.
#[derive(Debug, Default)]
pub struct Page<'a> {
    /// The block that a filter can take as it is.
    pub list: Vec<&'a str>,
    /// What happens where a call is refused, by its name: with `ENOSYS`, `EPERM`, `EINVAL`.
    pub cells: BTreeMap<&'a str, [&'a str; 3]>,
    /// The calls that a plain spawn cannot do without, and why.
    pub fatal: BTreeMap<&'a str, &'a str>,
    /// The sections: a call, and its heads with what follows each.
    sections: Vec<(&'a str, Vec<(&'a str, &'a str)>)>,
}

impl<'a> Page<'a> {
    /// From its text.
    pub fn parse(text: &'a str) -> Page<'a> {
        let mut page = Page::default();
        let block = text.split_once("```allow-list\n").and_then(|(_, rest)| rest.split_once("```"));
        page.list = block.map(|(list, _)| list.lines().collect()).unwrap_or_default();
        for line in text.lines() {
            if let Some(call) = line.strip_prefix("## `").and_then(|rest| rest.strip_suffix('`')) {
                page.sections.push((call, Vec::new()));
            } else if let (Some((_, heads)), Some(rest)) =
                (page.sections.last_mut(), line.strip_prefix("- **"))
            {
                heads.extend(rest.split_once(".** "));
            }
            let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
            let call = cells.first().and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`'));
            match (call, cells.as_slice()) {
                (Some(call), [_, a, b, c]) => drop(page.cells.insert(call, [a, b, c])),
                (Some(call), [_, why]) => drop(page.fatal.insert(call, why)),
                _ => {}
            }
        }
        page
    }
}

/// Each system call that core makes, by number or through a function of rustix, has its section in `core/docs/syscalls.md`, its row in the
/// table of refusals and its line in the list; no other has. A section names every function that makes the call, and has all heads.
pub fn syscalls(files: &Files) -> Vec<String> {
    let Some(text) = files.text(PAGE) else { return vec![format!("{PAGE} is not there")] };
    let page = Page::parse(text);
    let mut faults = Vec::new();
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    for (call, heads) in &page.sections {
        if !heads.iter().map(|(head, _)| head).eq(&HEADS) {
            faults.push(format!("{PAGE}: `{call}` has not the heads {}", HEADS.join(", ")));
        }
        let makers =
            heads.iter().filter(|(head, _)| *head == "Made by").flat_map(|(_, list)| list.split('`'));
        named.extend(makers.filter(|maker| maker.contains("::")).map(|maker| (maker, *call)));
    }
    let sections: BTreeSet<&str> = page.sections.iter().map(|(call, _)| *call).collect();
    let (made, used) = (by_number(files), through_rustix(files));
    for (maker, (call, place)) in &made {
        if !sections.contains(call.as_str()) {
            faults.push(format!("{place}: {maker} makes `{call}`, which has no section in {PAGE}"));
        } else if named.get(maker.as_str()) != Some(&call.as_str()) {
            faults.push(format!("{PAGE}: `{call}` does not say that `{maker}` makes it ({place})"));
        }
    }
    for (function, place) in used.iter().filter(|(function, _)| !named.contains_key(function.as_str())) {
        faults.push(format!("{place}: no section of {PAGE} says which call `{function}` makes"));
    }
    for (maker, call) in named {
        if !made.contains_key(maker) && !used.contains_key(maker) {
            faults.push(format!("{PAGE}: `{call}` names `{maker}`, which core does not use"));
        }
    }
    let makes = |call: &str| named_makers(&page, call).next().is_some();
    faults.extend(
        sections.iter().filter(|call| !makes(call)).map(|call| format!("{PAGE}: nothing makes `{call}`")),
    );
    if !page.list.iter().eq(&sections) {
        faults.push(format!(
            "{PAGE}: the list is not that of the sections, sorted: {}",
            Vec::from_iter(sections.clone()).join(" ")
        ));
    }
    let rows: BTreeSet<&str> = page.cells.keys().copied().collect();
    faults.extend(
        sections
            .symmetric_difference(&rows)
            .map(|call| format!("{PAGE}: `{call}` has a section or a row of refusals, not both")),
    );
    faults
}

fn named_makers<'a>(page: &'a Page<'_>, call: &str) -> impl Iterator<Item = &'a str> {
    let section = page.sections.iter().find(|(name, _)| *name == call);
    let heads = section.into_iter().flat_map(|(_, heads)| heads);
    heads
        .filter(|(head, _)| *head == "Made by")
        .flat_map(|(_, list)| list.split('`'))
        .filter(|word| word.contains("::"))
}

/// The functions that make a call by its number: the call, and where. A function may make one call.
fn by_number(files: &Files) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    for (path, text) in files.product("core/src/") {
        let masked = mask(text);
        for (at, _) in masked.match_indices("__NR_") {
            let (head, tail) = masked.split_at(at);
            let word = |text: &str| {
                text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
            };
            let call = word(tail.get(5..).unwrap_or_default());
            let function =
                head.rfind("fn ").map_or(String::new(), |at| word(head.get(at + 3..).unwrap_or_default()));
            let module = path.trim_start_matches("core/src/").trim_end_matches(".rs").replace('/', "::");
            let place = format!("{path}:{}", head.matches('\n').count() + 1);
            found.insert(format!("{module}::{function}"), (call, place));
        }
    }
    found
}

/// The functions of rustix that core uses, and where.
fn through_rustix(files: &Files) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (path, text) in files.product("core/src/") {
        let masked = mask(text);
        let mut rest = masked.as_str();
        let mut imports = vec!["rustix".to_string()];
        while let Some((_, after)) = rest.split_once("use rustix::") {
            let (tree, after) = after.split_once(';').unwrap_or((after, ""));
            imports.extend(flat(tree).into_iter().map(|path| format!("rustix::{path}")));
            rest = after;
        }
        let code = without_uses(&masked);
        for import in imports {
            let last = import.rsplit("::").next().unwrap_or_default();
            if last.starts_with(char::is_uppercase) {
                continue;
            }
            for (at, tail) in words(&code, last) {
                let function = path_of(tail);
                // What begins with a capital is a type, and a module alone is no function.
                let is_function = function.split("::").all(|name| name.starts_with(char::is_lowercase));
                if is_function && (function.contains("::") || import.matches("::").count() > 1) {
                    let name = import.trim_end_matches(last).to_string() + &function;
                    found.insert(
                        name,
                        format!("{path}:{}", code.get(..at).unwrap_or_default().matches('\n').count() + 1),
                    );
                }
            }
        }
    }
    found
}

/// The paths that a tree of imports stands for: `fs::{self, Mode}, io` is `fs`, `fs::Mode` and `io`.
fn flat(tree: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut depth, mut from) = (0, 0);
    for (at, c) in tree.char_indices().chain([(tree.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = tree.get(from..at).unwrap_or_default().trim();
                match item.split_once('{') {
                    Some((head, rest)) => {
                        let inner = flat(rest.trim_end().strip_suffix('}').unwrap_or(rest));
                        let whole = inner.into_iter().map(|path| format!("{}{path}", head.trim()));
                        found.extend(whole.map(|path| path.trim_end_matches("::self").to_string()));
                    }
                    None => found.extend((!item.is_empty()).then(|| item.to_string())),
                }
                from = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The same text with `use` statements of rustix blank.
fn without_uses(masked: &str) -> String {
    let mut out = masked.to_string();
    while let Some(at) = out.find("use rustix::") {
        let end = out.get(at..).and_then(|rest| rest.find(';')).map_or(out.len(), |n| at + n);
        let blank: String =
            out.get(at..end).unwrap_or_default().chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
        out.replace_range(at..end, &blank);
    }
    out
}

/// Where a word stands that is neither a method, nor defined there, nor the end of another path; with all that follows.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    code.match_indices(word).filter_map(move |(at, _)| {
        let (head, tail) = code.split_at(at);
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let goes_on = tail.get(word.len()..).is_some_and(|rest| rest.starts_with(part));
        let other = head.ends_with(part) || head.ends_with(['.', ':']) || head.ends_with("fn ");
        (!goes_on && !other).then_some((at, tail))
    })
}

/// The path at the head of a text, up to the first name of a type.
fn path_of(text: &str) -> String {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    text.get(..end).unwrap_or_default().trim_end_matches(':').to_string()
}
