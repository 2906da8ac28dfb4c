//! The list of system calls says of each since when it is there, and where it is described.

use super::{Files, functions, mask};

/// Every function of `sys.rs` that others may call, and that makes a system call, has in its doc "Since Linux x.y" or "Always there", and
/// the address of a man page of section 2.
pub fn wrappers(files: &Files) -> Vec<String> {
    let Some(text) = files.text("core/src/sys.rs") else { return Vec::new() };
    let masked = mask(text);
    let lines: Vec<&str> = text.lines().collect();
    let calls = |body: &str| ["syscall!", "action(", "clone_onto("].iter().any(|c| body.contains(c));
    let mut faults = Vec::new();
    for function in functions(&masked).into_iter().filter(|f| f.public && calls(f.text)) {
        let before = lines.get(..function.line - 1).unwrap_or_default().iter().rev();
        let doc: Vec<&str> = before
            .map(|l| l.trim())
            .take_while(|l| l.starts_with("///") || l.starts_with("#["))
            .filter(|l| l.starts_with("///"))
            .collect();
        let doc = doc.join("\n");
        if !doc.contains("Since Linux ") && !doc.contains("Always there") {
            faults.push(format!(
                "core/src/sys.rs:{}: {} does not say since when",
                function.line, function.name
            ));
        }
        if !doc.contains("<https://man7.org/linux/man-pages/man2/") {
            faults.push(format!("core/src/sys.rs:{}: {} names no man page", function.line, function.name));
        }
    }
    faults
}
