use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    format, fs,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use super::*;
use Action::{Done, Look, Take, Wait};
use Event::{Empty, Force, LeaderEnded, NotEmpty, Start, Taken, Tick};
use Rung::{Ask, Kill, Sweep, Term};

mod model;
mod text;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const RUNGS: [Rung; 4] = [Ask, Term, Kill, Sweep];
const ALL: [Event; 10] =
    [Start, Tick, Taken(Ask), Taken(Term), Taken(Kill), Taken(Sweep), LeaderEnded, Empty, NotEmpty, Force];
const GRACES: Graces = Graces { ask: Some(ms(3000)), term: ms(5000), kill_limit: ms(2000) };
const ORIGIN: Duration = Duration::from_secs(777);

fn ladder(graces: Graces) -> Ladder {
    Ladder::new(graces)
}

/// Every state with what came before it, asking or not, leader ended or not; a grace of 10 s that runs, a look in 5 s.
fn states() -> Vec<Ladder> {
    let mut states = vec![State::Ready, State::Ended(Outcome::Survived)];
    let last = [None, Some(Ask), Some(Term), Some(Kill), Some(Sweep)];
    states.extend(last.map(|by| State::Ended(Outcome::Empty { by })));
    states.extend(RUNGS.map(State::Waiting));
    let due = [(Ask, 0..1), (Term, 0..2), (Kill, 0..3), (Sweep, 3..5)];
    for (due, range) in due {
        states.extend(last[range].iter().map(|last| State::Due { due, last: *last }));
    }
    let mut all = vec![];
    for state in states {
        for (asks, leader_ended) in [(true, false), (true, true), (false, false), (false, true)] {
            let of_ask = matches!(state, State::Due { due: Ask, .. } | State::Waiting(Ask));
            if asks || !of_ask {
                let graces = Graces { ask: GRACES.ask.filter(|_| asks), ..GRACES };
                let (clock, look, until) = (ORIGIN, ORIGIN + ms(5000), ORIGIN + ms(10_000));
                let zero = Graces { ask: graces.ask.map(|_| ms(0)), term: ms(0), kill_limit: ms(0) };
                for graces in [graces, zero] {
                    all.push(Ladder { state, leader_ended, clock, look, until, ..ladder(graces) });
                }
            }
        }
    }
    all
}

fn state_name(state: State) -> String {
    match state {
        State::Ready => "ready".to_string(),
        State::Due { due, .. } => format!("due {due:?}"),
        State::Waiting(rung) => format!("after {rung:?}"),
        State::Ended(_) => "ended".to_string(),
    }
}

fn event_name(before: &Ladder, now: Duration, event: Event) -> String {
    let when = || match before.state {
        State::Waiting(_) if now < before.look => ", early",
        State::Waiting(_) if now < before.until => ", look due",
        State::Waiting(_) => ", grace over",
        _ => "",
    };
    match (before.state, event) {
        (State::Ready, Start) if before.graces.ask.is_none() => "Start, no way to ask".to_string(),
        (State::Ready, Start) if before.leader_ended => "Start, leader ended".to_string(),
        (_, Tick) => format!("Tick{}", when()),
        (_, NotEmpty) => format!("NotEmpty{}", when()),
        (State::Due { due, last }, Taken(rung)) if rung == due => {
            let full = last != Some(Sweep);
            let over = if full { before.grace(rung).is_zero() } else { now >= before.until };
            if over { "Taken, this rung, no grace" } else { "Taken, this rung" }.to_string()
        }
        (State::Due { .. }, Taken(_)) => "Taken, another rung".to_string(),
        (_, Taken(_)) => "Taken, any rung".to_string(),
        (_, event) => format!("{event:?}"),
    }
}

fn action_name(action: Action) -> String {
    match action {
        Take(rung) => format!("{rung:?}"),
        Done(Outcome::Empty { .. }) => "Done: empty".to_string(),
        Done(Outcome::Survived) => "Done: survived".to_string(),
        action => format!("{action:?}"),
    }
}

/// The table in the documentation is what the code does: no row wrong, missing, double or extra.
#[test]
fn the_table_in_the_documentation_is_the_code() {
    let mut code = BTreeMap::<(String, String), BTreeSet<(String, String)>>::new();
    for before in states() {
        for event in ALL {
            for now in [before.clock, before.look, before.until] {
                let mut after = before;
                let action = after.step(now, event);
                let key = (state_name(before.state), event_name(&before, now, event));
                code.entry(key).or_default().insert((action_name(action), state_name(after.state)));
            }
        }
    }
    let mut doc = BTreeMap::new();
    let path = format!("{}/docs/ladder.md", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    for line in text.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<String> = line.trim_matches('|').split('|').map(|c| c.trim().to_string()).collect();
        let [state, event, action, next] = &cells[..] else { panic!("not four cells: {line}") };
        let row = BTreeSet::from([(action.clone(), next.clone())]);
        assert!(doc.insert((state.clone(), event.clone()), row).is_none(), "twice: {line}");
    }
    for (key, row) in &code {
        assert_eq!(doc.get(key), Some(row), "{key:?}");
    }
    let extra: Vec<_> = doc.keys().filter(|key| !code.contains_key(*key)).collect();
    assert!(extra.is_empty(), "rows of no state: {extra:?}");
}

/// Steps through times and events, comparing each answer.
fn walk(ladder: &mut Ladder, steps: &[(u64, Event, Action)]) {
    for (at, event, want) in steps {
        assert_eq!(ladder.step(ORIGIN + ms(*at), *event), *want, "{event:?} at {at}");
    }
}

const fn empty(by: Option<Rung>) -> Action {
    Done(Outcome::Empty { by })
}

#[test]
fn every_rung_in_order_up_to_the_report_of_survivors() {
    let mut l = ladder(GRACES);
    walk(&mut l, &[(0, Start, Take(Ask)), (0, Taken(Ask), Wait), (2999, Tick, Wait), (3000, Tick, Look)]);
    walk(&mut l, &[(3000, NotEmpty, Take(Term)), (3001, Taken(Term), Wait), (8000, Tick, Wait)]);
    assert_eq!(l.next_deadline(), Some(ORIGIN + ms(8001)));
    walk(&mut l, &[(8001, Tick, Look), (8001, NotEmpty, Take(Kill)), (8001, Taken(Kill), Wait)]);
    walk(&mut l, &[(8051, Tick, Look), (8051, NotEmpty, Take(Sweep)), (8060, Taken(Sweep), Wait)]);
    walk(&mut l, &[(8110, Tick, Look), (8110, NotEmpty, Take(Sweep)), (9000, Taken(Sweep), Wait)]);
    // The limit counts from the first sweep.
    walk(&mut l, &[(10_059, NotEmpty, Take(Sweep)), (10_060, Taken(Sweep), Look)]);
    walk(&mut l, &[(10_060, NotEmpty, Done(Outcome::Survived)), (10_061, Empty, Wait)]);
    assert_eq!((l.outcome(), l.next_deadline()), (Some(Outcome::Survived), None));
}

#[test]
fn a_caller_stalled_for_an_hour_climbs_one_rung_and_gives_the_next_grace_in_full() {
    let hour = 3_600_000;
    let mut l = ladder(Graces { ask: None, ..GRACES });
    walk(&mut l, &[(0, Start, Take(Term)), (hour, Tick, Wait), (hour, Taken(Term), Wait)]);
    walk(&mut l, &[(hour + 4999, Tick, Wait), (2 * hour, Tick, Look), (2 * hour, NotEmpty, Take(Kill))]);
    walk(&mut l, &[(3 * hour, Taken(Kill), Wait), (3 * hour + 49, NotEmpty, Wait)]);
}

#[test]
fn zero_grace_is_term_one_look_then_kill() {
    let mut l = ladder(Graces { ask: None, term: Duration::ZERO, kill_limit: Duration::ZERO });
    walk(&mut l, &[(0, Start, Take(Term)), (0, Taken(Term), Look)]);
    let mut gone = l;
    walk(&mut gone, &[(0, Empty, empty(Some(Term)))]);
    walk(&mut l, &[(0, NotEmpty, Take(Kill)), (0, Taken(Kill), Wait), (50, Tick, Look)]);
    walk(
        &mut l,
        &[(50, NotEmpty, Take(Sweep)), (50, Taken(Sweep), Look), (50, NotEmpty, Done(Outcome::Survived))],
    );
}

#[test]
fn the_end_of_the_leader_is_not_the_end() {
    // By itself: the rungs run for those it left, but nobody is there to ask.
    let mut l = ladder(GRACES);
    walk(&mut l, &[(0, LeaderEnded, Wait), (0, Start, Take(Term)), (0, Taken(Term), Wait)]);
    assert_eq!(l.next_deadline(), Some(ORIGIN + PAUSE), "members end without an event: looks are due");
    walk(&mut l, &[(50, Tick, Look), (50, NotEmpty, Wait), (99, Tick, Wait), (100, Tick, Look)]);
    walk(
        &mut l,
        &[(5000, NotEmpty, Take(Kill)), (5000, Taken(Kill), Wait), (5001, Empty, empty(Some(Kill)))],
    );
    // On SIGTERM: a member deaf to it keeps its grace and gets SIGKILL.
    let mut l = ladder(GRACES);
    walk(&mut l, &[(0, Start, Take(Ask)), (0, Taken(Ask), Wait), (3000, NotEmpty, Take(Term))]);
    walk(&mut l, &[(3000, Taken(Term), Wait), (3010, LeaderEnded, Look), (3010, NotEmpty, Wait)]);
    walk(&mut l, &[(7999, NotEmpty, Wait), (8000, Tick, Look), (8000, NotEmpty, Take(Kill))]);
}

#[test]
fn done_is_given_once_in_every_order_of_ends() {
    let orders: [&[Event]; 5] = [
        &[LeaderEnded, Empty],
        &[Empty, LeaderEnded],
        &[Empty],
        &[LeaderEnded, Empty, Empty],
        &[Empty, Tick],
    ];
    for before in states() {
        for order in orders {
            let mut l = before;
            let done = order.iter().filter(|e| matches!(l.step(ORIGIN, **e), Done(_))).count();
            assert_eq!(done, usize::from(before.outcome().is_none()), "{before:?} {order:?}");
            assert!(l.outcome().is_some());
        }
    }
}

#[test]
fn force_goes_to_kill_once_and_starts_no_grace_of_a_rung_it_overtook() {
    let mut l = ladder(GRACES);
    walk(&mut l, &[(0, Start, Take(Ask)), (0, Taken(Ask), Wait), (3000, NotEmpty, Take(Term))]);
    walk(&mut l, &[(3000, Force, Take(Kill)), (3000, Taken(Term), Wait), (3000, Force, Wait)]);
    let mut gone = l;
    walk(&mut gone, &[(3001, Empty, empty(Some(Ask)))]);
    walk(&mut l, &[(3001, Taken(Kill), Wait), (3002, Force, Wait), (3002, Empty, empty(Some(Kill)))]);
    walk(&mut ladder(GRACES), &[(0, Force, Take(Kill))]);
}

#[test]
fn a_clock_that_goes_backwards_never_shortens_a_grace() {
    let mut l = ladder(Graces { ask: None, ..GRACES });
    walk(&mut l, &[(60_000, Start, Take(Term)), (0, Taken(Term), Wait), (60_001, Tick, Wait)]);
    walk(&mut l, &[(5000, Tick, Wait), (64_999, NotEmpty, Wait), (65_000, NotEmpty, Take(Kill))]);
}
