use super::*;

const LONG: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The delay; fails the test where there is none.
#[track_caller]
fn delay(next: Restart) -> Duration {
    match next {
        Restart::After(delay) => delay,
        Restart::GiveUp => panic!("it gave up"),
    }
}

#[test]
fn delay_doubles_to_its_end_with_a_quarter_more_at_most() {
    let mut spread = [Duration::MAX, Duration::ZERO];
    for seed in 0..200 {
        let mut breaker = Breaker::new(seed);
        for n in 0..40_u32 {
            let base = (FIRST_DELAY * 2_u32.pow(n.min(8))).min(LONGEST_DELAY);
            let delay = delay(breaker.failed(at(u64::from(n) * 100), LONG));
            assert!(delay >= base && delay <= base + base / 4, "{n}: {delay:?}");
            if n == 0 {
                spread = [spread[0].min(delay), spread[1].max(delay)];
            }
        }
    }
    assert!(spread[0] < FIRST_DELAY + FIRST_DELAY / 40 && spread[1] > FIRST_DELAY * 6 / 5, "{spread:?}");
}

#[test]
fn five_failures_in_a_minute_open_it_and_four_do_not() {
    let mut breaker = Breaker::new(1);
    for n in 0..4 {
        delay(breaker.failed(at(n * 14), LONG));
    }
    let mut late = breaker.clone();
    assert_eq!(breaker.failed(at(59), LONG), Restart::GiveUp);
    // The first has just passed out of the window.
    delay(late.failed(at(60), LONG));
    assert!(breaker.is_open() && !late.is_open());
}

#[test]
fn short_run_counts_triple() {
    let just = SHORT - Duration::from_nanos(1);
    let mut breaker = Breaker::new(1);
    delay(breaker.failed(at(0), just));
    assert_eq!(breaker.failed(at(1), just), Restart::GiveUp);
    let mut breaker = Breaker::new(1);
    delay(breaker.failed(at(0), just));
    delay(breaker.failed(at(1), SHORT));
    assert_eq!(breaker.failed(at(1), SHORT), Restart::GiveUp);
}

#[test]
fn open_it_stays_open_until_a_good_run() {
    let mut breaker = Breaker::new(1);
    breaker.failed(at(0), at(0));
    breaker.failed(at(0), at(0));
    for n in 0..3 {
        assert_eq!(breaker.failed(at(1_000_000 * n), LONG), Restart::GiveUp);
    }
    breaker.succeeded();
    assert!(!breaker.is_open());
    assert!(delay(breaker.failed(at(1), at(0))) <= FIRST_DELAY * 5 / 4);
}

#[test]
fn good_run_begins_from_the_first_delay_and_time_that_goes_back_is_none() {
    let mut breaker = Breaker::new(1);
    for n in 0..10 {
        delay(breaker.failed(at(n * 100), LONG));
    }
    breaker.succeeded();
    assert!(delay(breaker.failed(at(1_001), LONG)) <= FIRST_DELAY * 5 / 4);
    for _ in 0..3 {
        delay(breaker.failed(at(0), LONG));
    }
    assert_eq!(breaker.failed(at(0), LONG), Restart::GiveUp);
}
