//! The congestion controller of a project with its own transport, and a test that evaluates it.
//!
//! The controller does not depend on Windward: only the test does.

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
    /// A controller for packets of that many bytes.
    pub fn new(packet: u64) -> Self {
        MyController { window: 10 * packet, threshold: u64::MAX, counted: 0, packet }
    }

    /// Congestion window, in bytes.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Notes acknowledged bytes, which were sent while the window limited the sender.
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

    /// Notes a lost or marked packet, the first of this round trip.
    pub fn congested(&mut self) {
        self.window = (self.window / 2).max(2 * self.packet);
        self.threshold = self.window;
        self.counted = 0;
    }

    /// Notes a timeout.
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
