//! Whether a failed attempt is made again, and when.

use std::time::Duration;

use offshoot_model::{Failure, RetryMode, RetryPolicy, Waits};

fn server() -> Failure {
    Failure::new("SERVER", "broken")
}

fn asking(milliseconds: u64) -> Failure {
    Failure {
        provider_retry_after_ms: Some(milliseconds),
        ..Failure::new("RATE_LIMIT", "slow down")
    }
}

fn ms(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds))
}

#[test]
fn waits_double_up_to_the_longest_one_and_end_with_the_budget() {
    let policy = RetryPolicy {
        max_retries: Some(7),
        ..RetryPolicy::default()
    };
    let waits: Vec<_> = (1..=8)
        .map(|retry| policy.delay(retry, &server(), 0.5))
        .collect();
    let expected = [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000].map(ms);
    assert_eq!(waits[..7], expected);
    assert_eq!(waits[7], None);
}

#[test]
fn jitter_moves_a_wait_by_a_tenth_and_never_beyond_the_longest() {
    let policy = RetryPolicy::default();
    let waits = [0.0, 0.25, 1.0, 9.0].map(|random| policy.delay(2, &server(), random));
    assert_eq!(waits, [900, 950, 1_100, 1_100].map(ms));
    assert_eq!(
        [0.0, 1.0].map(|random| RetryPolicy::always().delay(9, &server(), random)),
        [9_000, 10_000].map(ms)
    );
}

#[test]
fn only_what_may_pass_is_tried_again() {
    let policy = RetryPolicy::default();
    let tried = |code: &str| policy.delay(1, &Failure::new(code, ""), 0.5).is_some();
    for code in [
        "EMPTY_RESPONSE",
        "RATE_LIMIT",
        "SERVER",
        "TIMEOUT",
        "TRANSPORT",
    ] {
        assert!(tried(code), "{code}");
    }
    for code in [
        "AUTH",
        "QUOTA",
        "CONTEXT_WINDOW_EXCEEDED",
        "INVALID_REQUEST",
        "ABORTED",
        "STREAM_CLOSED",
        "MALFORMED_RESPONSE",
        "IMAGE_OFFLOAD_REQUIRED",
        "TRUNCATED_TOOL_CALL",
        "HTTP_404",
        "REFUSAL",
    ] {
        assert!(!tried(code), "{code}");
    }
    assert_eq!(RetryPolicy::never().delay(1, &server(), 0.5), None);
}

#[test]
fn a_wait_that_the_provider_asks_for_is_exact() {
    let policy = RetryPolicy::default();
    assert_eq!(policy.delay(1, &asking(10_000), 0.9), ms(10_000));
    assert_eq!(policy.delay(1, &asking(10_001), 0.9), None, "too long");
    let always = RetryPolicy::always();
    assert_eq!(always.delay(99, &asking(60_000), 0.9), ms(60_000));
    assert_eq!(
        always.delay(1, &asking(u64::MAX), 0.9),
        ms(2_147_483_647),
        "as long as a log can say"
    );
}

#[test]
fn policies_have_a_mode_and_a_key_of_their_own() {
    let normal = RetryPolicy::default();
    assert_eq!(normal.mode(), RetryMode::Normal);
    assert_eq!(
        normal.policy_key(),
        r#"["normal",5,["EMPTY_RESPONSE","RATE_LIMIT","SERVER","TIMEOUT","TRANSPORT"],500,10000,0.1]"#
    );
    let always = RetryPolicy::always();
    assert_eq!(
        (always.mode(), always.mode().as_str()),
        (RetryMode::Always, "always")
    );
    assert_ne!(always.policy_key(), normal.policy_key());
    let patient = RetryPolicy {
        max: Duration::from_secs(60),
        ..normal
    };
    assert_ne!(patient.policy_key(), normal.policy_key());
}

#[test]
fn a_policy_can_be_read_from_its_key_and_from_no_other() {
    let policy = RetryPolicy {
        max_retries: Some(2),
        initial: Duration::from_millis(250),
        jitter: 0.25,
        ..RetryPolicy::default()
    };
    for policy in [policy, RetryPolicy::never(), RetryPolicy::always()] {
        let read = RetryPolicy::of_policy_key(&policy.policy_key());
        assert_eq!(read, Some(policy));
    }
    let other = RetryPolicy::default()
        .policy_key()
        .replace("SERVER", "OTHER");
    for key in ["", "[]", "normal", &*other] {
        assert_eq!(RetryPolicy::of_policy_key(key), None, "{key}");
    }
}

#[test]
fn waits_that_are_skipped_are_as_long_as_others_and_nobody_waits() {
    let real = RetryPolicy::default();
    let skipped = RetryPolicy {
        waits: Waits::Skipped,
        ..RetryPolicy::default()
    };
    let failure = Failure::new("SERVER", "gone");
    let delay = skipped.delay(3, &failure, 0.5).unwrap();
    assert_eq!(Some(delay), real.delay(3, &failure, 0.5));
    assert_eq!(skipped.policy_key(), real.policy_key());
    assert_eq!(
        (real.pause(delay), skipped.pause(delay)),
        (delay, Duration::ZERO)
    );
}
