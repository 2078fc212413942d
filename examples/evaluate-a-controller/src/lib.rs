//! A congestion controller as a project has it for its own transport, and the test that judges it.
//!
//! The controller knows nothing of Windward: the test brings the two together.

/// NewReno (RFC 9002 section 7): slow start, one packet a round trip, half on congestion.
#[derive(Debug, Clone)]
pub struct MyController {
    window: u64,
    threshold: u64,
    /// Bytes acknowledged towards the next packet in congestion avoidance.
    counted: u64,
    packet: u64,
}

impl MyController {
    /// For packets of that many bytes.
    pub fn new(packet: u64) -> Self {
        MyController { window: 10 * packet, threshold: u64::MAX, counted: 0, packet }
    }

    /// How much may be in flight, bytes.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// So many bytes have arrived, sent while the window was what kept more from being sent.
    pub fn acknowledged(&mut self, bytes: u64) {
        if self.window < self.threshold {
            self.window += bytes;
            return;
        }
        self.counted += bytes;
        if self.counted >= self.window {
            self.counted -= self.window;
            self.window += self.packet;
        }
    }

    /// A packet was lost or marked, the first of this round trip.
    pub fn congested(&mut self) {
        self.window = (self.window / 2).max(2 * self.packet);
        self.threshold = self.window;
        self.counted = 0;
    }

    /// Nothing has arrived for long.
    pub fn silent(&mut self) {
        self.congested();
        self.window = 2 * self.packet;
    }
}

#[cfg(test)]
mod tests {
    use windward_evaluate::{Ack, Cause, Congestion, Controller, evaluate};

    use super::MyController;

    struct Judged(MyController);

    impl Controller for Judged {
        fn window(&self) -> u64 {
            self.0.window()
        }
        fn on_ack(&mut self, ack: &Ack) {
            if !ack.app_limited && !ack.in_recovery {
                self.0.acknowledged(ack.bytes);
            }
        }
        fn on_congestion(&mut self, event: &Congestion) {
            match event.cause {
                Cause::PersistentCongestion => self.0.silent(),
                _ => self.0.congested(),
            }
        }
    }

    #[test]
    fn it_is_fit_for_the_internet() {
        evaluate(|| Judged(MyController::new(1500))).named("mine").smoke().assert();
    }

    #[test]
    fn one_that_never_backs_off_is_not() {
        struct Deaf(MyController);
        impl Controller for Deaf {
            fn window(&self) -> u64 {
                self.0.window()
            }
            fn on_ack(&mut self, ack: &Ack) {
                self.0.acknowledged(ack.bytes);
            }
        }
        let evaluation = evaluate(|| Deaf(MyController::new(1500))).run().unwrap();
        assert!(!evaluation.passes(), "{evaluation}");
        assert!(!evaluation.verdict("high-loss").unwrap().met, "{evaluation}");
        assert!(!evaluation.verdict("harm").unwrap().met, "{evaluation}");
    }
}
