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
    fn make(&self, mut setup: DiscriminatorSetup<'_>) -> Box<dyn Discriminator> {
        let setup = events::ControllerSetup {
            initial_window: setup.endpoint.initial_window,
            rwnd: setup.endpoint.rwnd,
            seed: (setup.stream.uniform() * (1_u64 << 53) as f64) as u64,
        };
        let object = self.object(setup);
        let method = |name| {
            let object = object.as_ref()?;
            Python::attach(|py| Method::of(object.bind(py), self.name, name))
        };
        Box::new(PythonDiscriminator {
            on_ack: method("on_ack"),
            judge: method("judge"),
            opinion: method("opinion"),
        })
    }
}

/// Answer of a method for a loss; certain congestion if it raised an exception.
fn ask(method: &Method, loss: &LossEvent) -> Probability {
    let event = Loss::from(loss);
    let read = |answer: &Bound<'_, PyAny>| {
        let number = method.number(answer, |number| number <= 1.0, NEEDED)?;
        events::probability(number).ok_or_else(|| method.wrong(answer, NEEDED))
    };
    let answer = method.call(loss.path.now, |py| Ok((Bound::new(py, event)?.unbind(),)), read);
    answer.unwrap_or(Probability::ONE)
}

impl Discriminator for PythonDiscriminator {
    fn on_ack(&mut self, ack: &AckEvent) {
        if let Some(method) = &self.on_ack {
            let event = Ack::from(ack);
            method.call(ack.path.now, |py| Ok((Bound::new(py, event)?.unbind(),)), |_| Ok(()));
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
