//! Rust text without its comments and the insides of its strings, and what can be counted in it.

/// One function of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its name.
    pub name: String,
    /// Whether it is `pub` in some way.
    pub public: bool,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Its lines, from `fn` to the closing brace.
    pub lines: usize,
    /// From `fn` to the closing brace, masked.
    pub text: &'a str,
}

/// The same text, every byte at its place and every line as long: comments are blank, and strings and characters
/// are filled with `_`, but for white space.
pub fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    // Each round takes at least one byte.
    while let Some(rest) = bytes.get(out.len()..).filter(|r| !r.is_empty()) {
        let before = out.last().copied().unwrap_or(b' ');
        let (length, fill) = token(rest, before);
        let piece = rest.iter().take(length);
        match fill {
            Some(fill) => out.extend(piece.map(|b| if b.is_ascii_whitespace() { *b } else { fill })),
            None => out.extend(piece),
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// How long the token at the head is, and what it is filled with.
fn token(rest: &[u8], before: u8) -> (usize, Option<u8>) {
    if rest.starts_with(b"//") {
        return (find(rest, b"\n").unwrap_or(rest.len()), Some(b' '));
    }
    if rest.starts_with(b"/*") {
        return (block_comment(rest), Some(b' '));
    }
    if rest.starts_with(b"\"") {
        return (quoted(rest, b'"'), Some(b'_'));
    }
    let word_goes_on = before.is_ascii_alphanumeric() || before == b'_';
    let hashes = rest.iter().skip(1).take_while(|b| **b == b'#').count();
    if rest.starts_with(b"r")
        && rest.get(hashes + 1) == Some(&b'"')
        && (!word_goes_on || matches!(before, b'b' | b'c'))
    {
        let end = [b"\"".to_vec(), vec![b'#'; hashes]].concat();
        let body = rest.get(hashes + 2..).unwrap_or_default();
        return (find(body, &end).map_or(rest.len(), |at| hashes + 2 + at + end.len()), Some(b'_'));
    }
    // A character, not a lifetime: 'x' or '\…'.
    if rest.starts_with(b"'") {
        let width = std::str::from_utf8(rest.get(1..5.min(rest.len())).unwrap_or_default())
            .map_or_else(|e| e.valid_up_to(), str::len);
        let first =
            std::str::from_utf8(rest.get(1..=width).unwrap_or_default()).ok().and_then(|s| s.chars().next());
        let close = first.map_or(0, |c| 1 + c.len_utf8());
        if first == Some('\\') || first.is_some_and(|c| c != '\'') && rest.get(close) == Some(&b'\'') {
            return (quoted(rest, b'\''), Some(b'_'));
        }
    }
    (1, None)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|w| w == what)
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while let Some(tail) = rest.get(at..).filter(|t| !t.is_empty()) {
        if tail.starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if tail.starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.iter().enumerate().skip(1) {
        match *byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b if b == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The lines that hold code: neither blank nor comment alone.
pub fn code_lines(text: &str) -> usize {
    mask(text).lines().filter(|l| !l.trim().is_empty()).count()
}

/// The functions with a body, in order, also nested ones. `masked` is what [`mask`] gives.
pub fn functions(masked: &str) -> Vec<Function<'_>> {
    let mut list = Vec::new();
    for (at, _) in masked.match_indices("fn ") {
        let (head, tail) = masked.split_at(at);
        let whole_word = head.chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let rest = tail.get(3..).unwrap_or_default();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !whole_word || name.is_empty() {
            continue;
        }
        if let Some(length) = body_end(tail) {
            let text = tail.get(..length).unwrap_or_default();
            let start = head.rfind(['\n', ';', '}', '{']).map_or(0, |n| n + 1);
            let public = head.get(start..).is_some_and(|h| h.trim_start().starts_with("pub"));
            let (line, lines) = (head.matches('\n').count() + 1, text.lines().count());
            list.push(Function { name, public, line, lines, text });
        }
    }
    list
}

/// Where the body ends; `None` for a declaration.
fn body_end(text: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0_i32, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' if braces <= 1 => return (braces == 1).then_some(at + 1),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}
