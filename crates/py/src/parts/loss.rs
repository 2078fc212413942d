//! A loss model in Python.

use pyo3::prelude::*;
use windward_core::network::channel::{Channel, MakeChannel};
use windward_core::packet;
use windward_core::packet::Label;
use windward_core::rng::Stream;
use windward_core::units::Time;

use super::{Maker, Method, Packet};

#[derive(Debug)]
struct LossModel {
    destroys: Option<Method>,
}

impl MakeChannel for Maker {
    fn make(&self) -> Box<dyn Channel + Send + Sync> {
        let object = self.object(());
        Box::new(LossModel { destroys: self.method(object.as_ref(), "destroys") })
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
        let arguments = (now.as_secs_f64(), Packet::from(packet), coin);
        let read = |answer: &Bound<'_, PyAny>| {
            answer.extract::<bool>().map_err(|_| method.wrong(answer, "expected True or False"))
        };
        method.call(now, arguments, read).unwrap_or(false)
    }
}
