//! A loss model in Python.

use pyo3::prelude::*;
use windward_core::network::channel::{Channel, MakeChannel};
use windward_core::packet;
use windward_core::packet::Label;
use windward_core::rng::Stream;
use windward_core::units::Time;

use super::{Maker, Method, Packet, Trouble, report};

#[derive(Debug)]
struct LossModel {
    destroys: Option<Method>,
}

impl MakeChannel for Maker {
    fn make(&self) -> Box<dyn Channel + Send + Sync> {
        let destroys = Python::attach(|py| match self.class.call0(py) {
            Ok(object) => Method::of(object.bind(py), self.name, "destroys"),
            Err(error) => {
                report(Trouble { error, now: Time::ZERO, whose: self.name });
                None
            }
        });
        Box::new(LossModel { destroys })
    }
    fn loss_rate(&self, _size: u32) -> f64 {
        self.loss_rate
    }
}

impl Channel for LossModel {
    fn destroys(
        &mut self,
        now: Time,
        _label: Label,
        packet: &packet::Packet,
        stream: &mut Stream,
    ) -> bool {
        // Always drawn, so that later draws do not depend on the model.
        let coin = stream.uniform();
        let Some(method) = &self.destroys else { return false };
        let packet = Packet::from(packet);
        let arguments =
            |py: Python<'_>| Ok((now.as_secs_f64(), Bound::new(py, packet)?.unbind(), coin));
        let read = |answer: &Bound<'_, PyAny>| {
            answer.extract::<bool>().map_err(|_| method.wrong(answer, "expected True or False"))
        };
        method.call(now, arguments, read).unwrap_or(false)
    }
}
