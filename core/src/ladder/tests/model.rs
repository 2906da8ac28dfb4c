//! Random events, times and worlds against what the ladder promises.
#![forbid(unsafe_code)]

use super::*;

struct Random(u64);

impl Random {
    /// xorshift64*.
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn graces(&mut self) -> Graces {
        let ask = (self.below(2) == 0).then(|| ms(self.pick(&[0, 1, 60, 4000])));
        Graces {
            ask,
            term: ms(self.pick(&[0, 1, 60, 5000])),
            kill_limit: ms(self.pick(&[0, 1, 49, 50, 700, 5000])),
        }
    }
}

/// What was seen so far, apart from the ladder.
#[derive(Default)]
struct Seen {
    clock: Duration,
    forced: bool,
    done: bool,
    last: Option<Rung>,
    due: Option<Rung>,
    /// No rung above the last one taken before this.
    not_before: Duration,
    limit: Option<Duration>,
    times: [u32; 4],
}

impl Seen {
    fn event(&mut self, now: Duration, event: Event, graces: &Graces) {
        self.clock = self.clock.max(now);
        self.forced |= event == Force;
        if let Taken(rung) = event
            && self.due == Some(rung)
        {
            let grace = match rung {
                Ask => graces.ask.unwrap(),
                Term => graces.term,
                Kill => PAUSE,
                Sweep => Duration::ZERO,
            };
            self.not_before = self.clock + grace;
            if rung == Sweep {
                self.limit = self.limit.or(Some(self.clock + graces.kill_limit));
            }
            (self.last, self.due) = (Some(rung), None);
        }
    }

    fn action(&mut self, event: Event, action: Action, ladder: &Ladder, was_over: bool) {
        assert!(!was_over || action == Wait, "{action:?} after the end");
        match action {
            Take(rung) => {
                let times = &mut self.times[rung as usize];
                *times += 1;
                assert!(*times == 1 || rung == Sweep, "{rung:?} twice");
                let overtook = rung == Kill && event == Force;
                assert!(overtook || self.clock >= self.not_before, "{rung:?} before its time");
                match rung {
                    Ask => assert_eq!((self.last, event), (None, Start)),
                    Term => assert!(event == Start && self.last.is_none() || self.last == Some(Ask)),
                    Kill => assert!(overtook && self.last < Some(Kill) || self.last == Some(Term)),
                    Sweep => assert!(self.last >= Some(Kill)),
                }
                assert!(overtook || event == Start || event == NotEmpty, "{rung:?} without a look");
                self.due = Some(rung);
            }
            Done(Outcome::Empty { by }) => {
                assert_eq!((event, by), (Empty, self.last));
                (self.done, self.due) = (true, None);
            }
            Done(Outcome::Survived) => {
                assert_eq!((event, self.last), (NotEmpty, Some(Sweep)));
                assert!(self.clock >= self.limit.unwrap(), "reported before the limit");
                (self.done, self.due) = (true, None);
            }
            Look => assert!(self.due.is_none() && self.last.is_some()),
            Wait => {
                let early = ladder.next_deadline().is_none_or(|at| at > self.clock);
                assert!(early || event != Tick, "a tick at the deadline did nothing");
            }
        }
        assert_eq!(ladder.outcome().is_some(), self.done);
    }
}

#[test]
fn random_events_and_times_break_no_promise() {
    let mut random = Random(0x5eed);
    let (mut ended, mut swept, mut killed) = (0, 0, 0);
    for _ in 0..20_000 {
        let graces = random.graces();
        let mut ladder = Ladder::new(graces);
        let mut seen = Seen::default();
        let mut now = ORIGIN;
        for _ in 0..60 {
            now += ms(random.pick(&[0, 0, 1, 49, 50, 60, 700, 5000, 3_600_000]));
            if random.below(8) == 0 {
                now = now.saturating_sub(ms(random.pick(&[1, 5000, 3_700_000])));
            }
            if random.below(16) == 0 {
                // Another process goes on, with a clock of its own.
                now = ms(random.below(1 << 40));
                ladder = Ladder::decode(&ladder.encode(), now).unwrap();
                let moved = |at: Duration| now + at.saturating_sub(seen.clock);
                (seen.not_before, seen.limit) = (moved(seen.not_before), seen.limit.map(moved));
                seen.clock = now;
                assert_eq!(seen.due.map_or(ladder.pending(), Take), ladder.pending());
            }
            let event = match (random.below(4), seen.due) {
                (0 | 1, Some(due)) => Taken(due),
                (1 | 2, None) => random.pick(&[Tick, NotEmpty, Start]),
                _ => random.pick(&ALL),
            };
            if matches!(event, Empty | Force) && random.below(4) != 0 {
                continue;
            }
            let was_over = seen.done;
            seen.event(now, event, &graces);
            let action = ladder.step(now, event);
            seen.action(event, action, &ladder, was_over);
        }
        ended += u32::from(seen.done);
        killed += seen.times[Kill as usize];
        swept += u32::from(seen.times[Sweep as usize] > 1);
    }
    // The runs reach what they are to show.
    assert!(ended > 5000 && killed > 5000 && swept > 1000, "{ended} {killed} {swept}");
}

/// One process: it ends so long after a rung, or never.
struct Member {
    heeds: Option<Rung>,
    takes: Duration,
    ends: Option<Duration>,
}

/// A caller that does what it is told, sometimes late, in a world of processes.
#[test]
fn a_caller_that_ticks_comes_to_the_right_end_in_bounded_time() {
    let mut random = Random(0xfa1e);
    let mut by = BTreeMap::new();
    for _ in 0..20_000 {
        let graces = random.graces();
        let mut ladder = Ladder::new(graces);
        let mut now = ORIGIN;
        let mut members: Vec<Member> = (0..=random.below(3))
            .map(|_| Member {
                heeds: random.pick(&[Some(Ask), Some(Term), Some(Term), Some(Kill), Some(Sweep), None]),
                takes: ms(random.pick(&[0, 1, 40, 200, 4990])),
                ends: None,
            })
            .collect();
        let stalls = random.below(4) == 0;
        let mut stalled = Duration::ZERO;
        let (mut leader_seen, mut given, mut at) = (false, Start, now);
        let mut steps = 0;
        let (outcome, told) = loop {
            steps += 1;
            assert!(steps < 2000, "no end: {ladder:?}");
            if stalls && random.below(5) == 0 {
                let stall = ms(random.pick(&[1, 100, 3_600_000]));
                now += stall;
                stalled += stall;
            }
            let gone = |m: &Member| m.ends.is_some_and(|at| at <= now);
            if gone(&members[0]) && !leader_seen {
                leader_seen = true;
                // The event comes between two others; what it asks for comes after.
                if matches!(ladder.step(now, LeaderEnded), Look) {
                    (given, at) = (if members.iter().all(gone) { Empty } else { NotEmpty }, now);
                }
            }
            let all_gone = members.iter().all(gone);
            let action = ladder.step(at, given);
            let told = std::mem::replace(&mut at, now);
            given = match action {
                Done(outcome) => break (outcome, told),
                Look if all_gone => Empty,
                Look => NotEmpty,
                Take(rung) => {
                    // A milder rung that was left out is heeded in the harder one.
                    for member in members.iter_mut().filter(|m| m.heeds.is_some() && m.heeds <= Some(rung)) {
                        member.ends = member.ends.or(Some(now + member.takes));
                    }
                    Taken(rung)
                }
                Wait => {
                    let leader = members[0].ends.filter(|_| !leader_seen);
                    let next = ladder.next_deadline().unwrap();
                    now = now.max(leader.map_or(next, |end| end.min(next)));
                    at = now;
                    Tick
                }
            };
        };
        let all_gone = members.iter().all(|m| m.ends.is_some_and(|end| end <= told));
        assert_eq!(matches!(outcome, Outcome::Empty { .. }), all_gone, "{outcome:?}");
        let most = graces.ask.unwrap_or_default() + graces.term + graces.kill_limit + 2 * PAUSE;
        assert!(now - ORIGIN <= most + stalled, "{:?} > {most:?} + {stalled:?}", now - ORIGIN);
        *by.entry(format!("{outcome:?}")).or_insert(0) += 1;
    }
    assert!(by.len() == 5 && by.values().all(|n| *n > 300), "{by:?}");
}
