use core::time::Duration;

use super::*;

const SEC: fn(u64) -> Duration = Duration::from_secs;
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Ages in seconds at the moment of the question; `None`: never.
fn verdict(deadline_in: Option<i64>, event: u64, pong: Option<u64>, oldest_ping: Option<u64>) -> Verdict {
    let now = SEC(1000);
    let signs = Signs {
        deadline: deadline_in.map(|left| SEC((1000 + left) as u64)),
        event: now - SEC(event),
        pong: pong.map(|age| now - SEC(age)),
        unanswered: oldest_ping.map(|age| now - SEC(age)),
    };
    signs.verdict(now, &Windows::DEFAULT)
}

#[test]
fn the_table() {
    use Verdict::{Busy, Healthy, PastDeadline, Stuck};
    let rows = [
        (Some(0), 0, Some(0), None, PastDeadline),
        (Some(-5), 500, None, Some(500), PastDeadline),
        (Some(1), 0, Some(0), None, Healthy),
        // Recent events hide a missing pong for one pong window, not for the event window.
        (None, 9, Some(12), Some(10), Busy),
        (None, 10, Some(12), Some(10), Stuck),
        (None, 119, Some(12), Some(10), Stuck),
        (None, 0, None, Some(119), Busy),
        (None, 0, None, Some(120), Stuck),
        (None, 119, None, None, Healthy),
        (None, 119, None, Some(9), Healthy),
        (None, 120, None, Some(9), Busy),
        (None, 120, Some(900), Some(9), Busy),
        (None, 120, Some(13), None, Busy),
        (None, 120, Some(14), None, Stuck),
        (None, 120, None, None, Stuck),
    ];
    for (deadline, event, pong, ping, want) in rows {
        assert_eq!(verdict(deadline, event, pong, ping), want, "{deadline:?} {event} {pong:?} {ping:?}");
    }
}

#[test]
fn pings_come_at_a_third_of_the_window_within_bounds() {
    for (pong, want) in [(0, 50), (149, 50), (150, 50), (300, 100), (15_000, 5000), (60_000, 5000)] {
        let windows = Windows { pong: MS(pong), ..Windows::DEFAULT };
        assert_eq!(windows.ping_interval(), MS(want), "{pong}");
    }
}

#[test]
fn a_deadline_can_be_set_anew_and_a_clock_going_back_makes_nobody_stuck() {
    let mut signs = Signs::new(SEC(500), Some(SEC(510)));
    assert_eq!(signs.verdict(SEC(510), &Windows::DEFAULT), Verdict::PastDeadline);
    signs.deadline = Some(SEC(600));
    assert_eq!(signs.verdict(SEC(510), &Windows::DEFAULT), Verdict::Healthy);
    signs.ping(SEC(510));
    assert_eq!(signs.verdict(SEC(3), &Windows::DEFAULT), Verdict::Healthy);
    signs.event(SEC(3));
    signs.pong(SEC(3));
    assert_eq!(signs.verdict(SEC(511), &Windows::DEFAULT), Verdict::Healthy);
}

/// A child that answers pings until some moment and talks until another, pinged on schedule.
#[test]
fn a_child_is_stuck_only_when_silent_and_found_in_bounded_time() {
    let windows = Windows::DEFAULT;
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut found = 0;
    for round in 0..300 {
        let (answers_until, talks_until) = (MS(random(300_000)), MS(random(300_000)));
        let (gap, delay) = (MS(1 + random(200_000)), MS(random(9000)));
        let mut signs = Signs::new(Duration::ZERO, None);
        let (mut next_event, mut pong_at, mut now) = (gap, None::<Duration>, Duration::ZERO);
        let mut next_ping = windows.ping_interval();
        let mut sign = Duration::ZERO;
        while now < SEC(700) {
            now += MS(100);
            if next_event <= now && next_event < talks_until {
                signs.event(now);
                sign = now;
                next_event += gap;
            }
            if pong_at.is_some_and(|at| at <= now) {
                signs.pong(now);
                sign = now;
                pong_at = None;
            }
            if next_ping <= now {
                next_ping = now + windows.ping_interval();
                signs.ping(now);
                if now < answers_until && pong_at.is_none() {
                    pong_at = Some(now + delay);
                }
            }
            let verdict = signs.verdict(now, &windows);
            let stuck = verdict == Verdict::Stuck;
            if now < answers_until {
                assert!(!stuck, "{round}: answers, yet stuck at {now:?}");
            }
            // Silent for a window, an interval and the ticks of this loop.
            if now - sign > windows.pong + windows.ping_interval() + MS(200) {
                assert!(stuck, "{round}: silent since {sign:?}, yet {verdict:?} at {now:?}");
            }
            if now > answers_until + SEC(9) + windows.event + windows.ping_interval() + MS(200) {
                assert!(stuck, "{round}: deaf since {answers_until:?}, yet {verdict:?} at {now:?}");
                found += 1;
            }
        }
    }
    assert!(found > 300);
}
