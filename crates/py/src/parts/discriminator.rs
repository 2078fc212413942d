//! A discriminator in Python.

use pyo3::prelude::*;
use windward_core::endpoint::discrimination::{
    Discriminator, DiscriminatorSetup, MakeDiscriminator,
};
use windward_core::endpoint::event::{AckEvent, LossEvent};
use windward_core::units::Probability;

use super::{Ack, Loss, Maker, Method, events};

const NEEDED: &str = "expected the probability of congestion, from 0 to 1";

#[derive(Debug)]
struct PythonDiscriminator {
    on_ack: Option<Method>,
    judge: Option<Method>,
    opinion: Option<Method>,
}

impl MakeDiscriminator for Maker {
    fn make(&self, setup: DiscriminatorSetup<'_>) -> Box<dyn Discriminator> {
        let object =
            self.object((events::ControllerSetup::of(setup.endpoint, None, setup.stream),));
        let method = |name| self.method(object.as_ref(), name);
        Box::new(PythonDiscriminator {
            on_ack: method("on_ack"),
            judge: method("judge"),
            opinion: method("opinion"),
        })
    }
}

/// Answer of a method for a loss; certain congestion if it raised an exception.
fn ask(method: &Method, loss: &LossEvent) -> Probability {
    let read = |answer: &Bound<'_, PyAny>| {
        let number = method.number(answer, |number| number <= 1.0, NEEDED)?;
        Probability::new(number).ok_or_else(|| method.wrong(answer, NEEDED))
    };
    method.call(loss.path.now, (Loss::from(loss),), read).unwrap_or(Probability::ONE)
}

impl Discriminator for PythonDiscriminator {
    fn on_ack(&mut self, ack: &AckEvent) {
        if let Some(method) = &self.on_ack {
            method.call(ack.path.now, (Ack::from(ack),), |_| Ok(()));
        }
    }
    fn judge(&mut self, loss: &LossEvent) -> Probability {
        self.judge.as_ref().map_or(Probability::ONE, |method| ask(method, loss))
    }
    fn opinion(&self, loss: &LossEvent) -> Probability {
        let method = self.opinion.as_ref().or(self.judge.as_ref());
        method.map_or(Probability::ONE, |method| ask(method, loss))
    }
}
