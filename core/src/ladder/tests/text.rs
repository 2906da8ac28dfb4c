//! A ladder written down and read back.
#![forbid(unsafe_code)]

use super::*;

#[test]
fn text_keeps_every_state_and_what_is_left() {
    for before in states() {
        for passed in [0, 49, 1234, 100_000] {
            let mut l = before;
            // A running grace is at most that of its rung.
            if let State::Waiting(rung) = l.state {
                l.until = l.clock + l.grace(rung);
            } else {
                l.until = l.clock;
            }
            l.clock += ms(passed);
            let had = l.until.saturating_sub(l.clock);
            let text = l.encode();
            assert!(text.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-'));
            // An origin before and one after the writer's.
            for now in [Duration::ZERO, ORIGIN * 9] {
                let read = Ladder::decode(&text, now).unwrap();
                assert_eq!((read.state, read.graces, read.leader_ended), (l.state, l.graces, l.leader_ended));
                assert_eq!(read.until.saturating_sub(now), had);
                assert_eq!(read.encode(), text);
                let pending = match l.state {
                    State::Due { due, .. } => Take(due),
                    State::Waiting(_) => Look,
                    State::Ready | State::Ended(_) => Wait,
                };
                assert_eq!(read.pending(), pending);
            }
        }
    }
}

#[test]
fn a_grace_goes_on_after_a_restart_with_what_was_left() {
    let mut l = ladder(Graces { ask: None, ..GRACES });
    walk(&mut l, &[(0, Start, Take(Term)), (0, Taken(Term), Wait), (2000, Tick, Wait)]);
    let mut l = Ladder::decode(&l.encode(), ms(10)).unwrap();
    assert_eq!(l.pending(), Look);
    assert_eq!(l.step(ms(3009), NotEmpty), Wait);
    assert_eq!(l.next_deadline(), Some(ms(3010)));
    assert_eq!(l.step(ms(3010), NotEmpty), Take(Kill));
    // Ended between the step and its acknowledgement: the step is due again.
    assert_eq!(Ladder::decode(&l.encode(), ms(7)).unwrap().pending(), Take(Kill));
}

#[test]
fn other_texts_are_no_ladder() {
    let good = ladder(GRACES).encode();
    assert_eq!(Ladder::decode(&[&b"2"[..], &good[1..]].concat(), ORIGIN), Err(DecodeError::Version));
    for len in 0..good.len() {
        assert_eq!(Ladder::decode(&good[..len], ORIGIN), Err(DecodeError::Malformed));
    }
    assert_eq!(Ladder::decode(&[&good[..], b"0"].concat(), ORIGIN), Err(DecodeError::Malformed));
    // Any change of one byte is refused or is the text of another ladder.
    for before in states() {
        let good = before.encode();
        for at in 0..good.len() {
            for byte in *b"\0-0129acdefklrstwxA\xff" {
                let mut text = good;
                text[at] = byte;
                if let Ok(read) = Ladder::decode(&text, ORIGIN) {
                    assert_eq!(read.encode(), text);
                }
            }
        }
    }
    // More left than the grace has; a step after one that cannot come before it; upper case.
    let zeros = "0000000000000000";
    for (head, left) in [("1wt---", "0000000000000001"), ("1dtt---", zeros), ("1dta--", "000000000000000A")] {
        let text = format!("{head}{zeros}{zeros}{zeros}{left}");
        assert_eq!(Ladder::decode(text.as_bytes(), ORIGIN), Err(DecodeError::Malformed), "{text}");
    }
    for head in
        ["1dtt--", "1dks--", "1dst--", "1da---", "1wa---", "1rt---", "1s-t--", "1w----", "1r--b-", "1r---e"]
    {
        let text = format!("{head}{zeros}{zeros}{zeros}{zeros}");
        assert_eq!(Ladder::decode(text.as_bytes(), ORIGIN), Err(DecodeError::Malformed), "{text}");
    }
    assert!(Ladder::decode(format!("1dta--{zeros}{zeros}{zeros}{zeros}").as_bytes(), ORIGIN).is_ok());
}
