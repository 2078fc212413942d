use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;

/// A window as a function of the number of calls.
struct By<F>(u64, F);

impl<F: Fn(u64) -> u64 + Send> Controller for By<F> {
    fn window(&self) -> u64 {
        self.1(self.0)
    }
    fn on_ack(&mut self, _: &Ack) {
        self.0 += 1;
    }
}

fn of<F: Fn(u64) -> u64 + Send + Clone + Sync + 'static>(window: F) -> Evaluation {
    evaluate(move || By(0, window.clone())).only(["high-loss"]).run().unwrap()
}

#[test]
fn a_panic_is_told_with_its_message() {
    let evaluation = of(|calls| {
        assert!(calls < 100, "the window is inside out after {calls}");
        15_000
    });
    let message = "the window is inside out after 100".to_owned();
    assert_eq!(evaluation.troubles, [Trouble::Panicked { call: "window", message }]);
    assert!(!evaluation.passes());
    assert!(evaluation.to_string().contains("panicked in window: the window is inside out"));
    // A panic at the start is caught too.
    let evaluation = evaluate(|| -> By<fn(u64) -> u64> { panic!("no room") });
    let evaluation = evaluation.only(["fairness"]).run().unwrap();
    let call = "the making of it";
    assert_eq!(evaluation.troubles, [Trouble::Panicked { call, message: "no room".to_owned() }]);
}

#[test]
fn invalid_windows_are_refused_and_reported() {
    for value in [0, 1, 1499, 1 << 63, u64::MAX] {
        let evaluation = of(move |calls| if calls < 50 { 15_000 } else { value });
        let refused = |trouble: &Trouble| matches!(trouble, Trouble::Refused { what: "window", value: v, .. } if *v == value);
        assert!(evaluation.troubles.iter().any(refused), "{value}: {evaluation}");
        assert!(!evaluation.passes());
    }
}

#[test]
fn a_flood_is_cut_short() {
    let evaluation = of(|_| 1500 << 20);
    let exhausted = |trouble: &Trouble| matches!(trouble, Trouble::Exhausted { .. });
    assert!(evaluation.troubles.iter().any(exhausted), "{evaluation}");
}

#[test]
fn state_between_connections_is_detected() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let evaluation = of(|_| 15_000 + 1500 * (CALLS.fetch_add(1, Ordering::Relaxed) / 500));
    let place = "high-loss".to_owned();
    assert_eq!(evaluation.troubles, [Trouble::NotDeterministic { place }]);
}

#[test]
fn a_constant_window_has_no_trouble_but_fails() {
    let evaluation = of(|_| 150_000);
    assert_eq!(evaluation.troubles, []);
    // Two windows of a hundred packets, with a buffer of eight.
    assert!(!evaluation.verdicts[0].met, "{evaluation}");
    let timid = evaluate(|| By(0, |_| 1)).only(["wired"]).run().unwrap();
    // A packet per 40 ms plus its transmission of 1.2 ms are 24 of 833 per second: 3 %.
    assert!((timid.verdicts[0].value - 0.029).abs() < 0.002, "{timid}");
    assert!(!timid.passes());
}

#[test]
fn names_that_do_not_exist_are_refused() {
    let make = || By(0, |_| 15_000);
    let error = evaluate(make).only(["bufferbloot"]).run().unwrap_err().to_string();
    assert!(error.contains("bufferbloot") && error.contains("bufferbloat"), "{error}");
    let error = evaluate(make).against(["cubik"]).run().unwrap_err().to_string();
    assert!(error.contains("cubik") && error.contains("cubic"), "{error}");
    let none: [&str; 0] = [];
    assert!(evaluate(make).against(none).run().is_err());
}

/// Events of a controller, compared with arithmetic.
#[test]
fn a_controller_gets_the_events_of_the_run() {
    #[derive(Default)]
    struct Ears {
        sent: u64,
        delivered: u64,
    }
    impl Controller for Ears {
        fn window(&self) -> u64 {
            15_000
        }
        fn on_sent(&mut self, sent: &Sent) {
            assert_eq!(sent.bytes, 1500);
            self.sent += sent.bytes;
        }
        fn on_ack(&mut self, ack: &Ack) {
            // The only queue is that of its own ten packets: 40 ms, a transmission of 1.2 ms, that
            // of the ACK, a processing time of 1.2 ms, and nine packets ahead.
            assert!(ack.rtt > Duration::from_millis(41), "{ack:?}");
            assert!(ack.rtt < Duration::from_millis(56), "{ack:?}");
            assert!(ack.min_rtt <= ack.rtt && ack.now >= ack.sent + ack.rtt, "{ack:?}");
            self.delivered += ack.bytes;
            assert_eq!(self.delivered, ack.delivered);
            assert!(ack.in_flight <= 15_000 && self.delivered <= self.sent, "{ack:?}");
            assert!(!ack.ce && !ack.in_recovery && ack.lost == 0, "{ack:?}");
            // Ten packets per round trip of 42 ms are 357 kB/s; the estimate cannot exceed the link
            // rate.
            assert!(ack.delivery_rate.is_none_or(|rate| rate <= 1_250_000), "{ack:?}");
        }
    }
    let evaluation = evaluate(Ears::default).only(["wired"]).run().unwrap();
    assert_eq!(evaluation.troubles, [], "{evaluation}");
}

#[test]
fn the_same_controller_gives_the_same_numbers() {
    let run = || of(|calls| 15_000 + 100 * (calls % 300));
    assert_eq!(run(), run());
}
