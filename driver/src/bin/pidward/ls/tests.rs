use std::time::Duration;

use super::age;
use crate::{output::one_line, registries::each_at_once};

#[test]
fn an_age_is_in_the_largest_unit_that_leaves_a_number() {
    for (seconds, text) in [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3_599, "59m"),
        (3_600, "1h"),
        (86_399, "23h"),
        (86_400, "1d"),
        (8_640_000, "100d"),
    ] {
        assert_eq!(age(Duration::from_millis(seconds * 1000 + 999)), text);
    }
}

#[test]
fn a_name_is_one_line_and_shows_what_it_is() {
    for (name, shown) in [
        ("a b", "a b"),
        ("it's \"x\"", "it's \"x\""),
        ("é你", "é你"),
        ("a\\b", "a\\\\b"),
        ("\\'", "\\\\'"),
        ("a\u{2028}b\u{202e}", "a\\u{2028}b\\u{202e}"),
        ("a\nb", "a\\nb"),
    ] {
        assert_eq!(one_line(name), shown);
    }
}

#[test]
fn answers_come_in_the_order_of_what_was_asked() {
    let items: Vec<usize> = (0..1000).collect();
    assert_eq!(each_at_once(&items, |item| item + 1), (1..1001).collect::<Vec<_>>());
    assert!(each_at_once(&[0; 0], |item: &usize| *item).is_empty());
}
