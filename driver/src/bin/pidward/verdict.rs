//! The words for a verdict.

use pidward::{Field, Verdict, Why};

/// The verdict as one word, and the exit code.
pub(crate) const fn word(verdict: Verdict) -> (&'static str, u8) {
    match verdict {
        Verdict::Same => ("same", 0),
        Verdict::Recycled(_) => ("recycled", 1),
        Verdict::Gone => ("gone", 1),
        Verdict::NotOurs(_) => ("not-ours", 1),
        _ => ("unknown", 5),
    }
}

/// Why, for programs and for people.
pub(crate) fn reason(verdict: Verdict) -> (String, String) {
    let (word, words) = match verdict {
        Verdict::Same => ("", ""),
        Verdict::Gone => ("", "it has ended, or nobody has the number"),
        Verdict::Recycled(field) => match field {
            Field::Inode => ("inode", "the number is another process's now: its pidfd has another inode"),
            Field::StartTime => {
                ("start-time", "the number is another process's now: it started at another time")
            }
            Field::Nonce => ("nonce", "the number is another process's now: it is of another spawn"),
            _ => ("other", "the number is another process's now"),
        },
        Verdict::NotOurs(why) | Verdict::Unknown(why) => match why {
            Why::Errno(e) => {
                let name = e.name().map_or_else(|| e.raw().to_string(), str::to_owned);
                let words = format!("it cannot be looked at: {name}");
                return (name, words);
            }
            Why::NoMarker => ("no-marker", "it does not show what was looked for, which proves nothing"),
            Why::Inherited => ("inherited", "it has its markers from another process"),
            Why::NotYetExec => {
                ("not-yet-exec", "it shows its parent's environment or none: it may be in exec")
            }
            Why::ThreadId => ("thread-id", "the number is a thread's"),
            Why::KernelThread => ("kernel-thread", "it is a thread of the kernel"),
            Why::Us => ("us", "it is the process that asks"),
            Why::OtherTree => ("other-tree", "it descends from another supervisor, or from nobody"),
            Why::OtherBoot => ("other-boot", "the identity was written down in another boot"),
            Why::OtherPidNamespace => ("other-pid-namespace", "it belongs to another pid namespace"),
            Why::NoProc => ("no-proc", "there is no /proc"),
            Why::Unsupported => ("unsupported", "this system cannot tell"),
            _ => ("other", "the reason is one that this command does not know"),
        },
        _ => ("other", "the verdict is one that this command does not know"),
    };
    (word.to_owned(), words.to_owned())
}

/// Why a record is kept.
pub(crate) fn kept(verdict: Verdict) -> String {
    match verdict {
        Verdict::Unknown(_) | Verdict::NotOurs(Why::Us) => reason(verdict).1,
        Verdict::NotOurs(Why::OtherTree) => {
            "its supervisor may live: the directory is a copy, or says nothing of its owner".to_owned()
        }
        Verdict::Same => "its record cannot be removed".to_owned(),
        _ => {
            "it cannot be told whether anybody of its tree lives, or it is another installation's".to_owned()
        }
    }
}
