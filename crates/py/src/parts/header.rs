//! Congestion headers as dictionaries: `{"kind": "xcp", ...}`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyNone};
use windward_core::endpoint::feedback::ESTCP_UNWRITTEN;
use windward_core::packet::{CongestionHeader, NO_SEQ};

/// The header of an acknowledgment, for Python. A packet without a header gives `None`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header(pub(crate) CongestionHeader);

impl<'py> IntoPyObject<'py> for Header {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let dict = PyDict::new(py);
        let kind = match self.0 {
            CongestionHeader::None => return Ok(PyNone::get(py).to_owned().into_any()),
            CongestionHeader::Xcp { rtt, inter_packet, delta, congestion_flag } => {
                dict.set_item("rtt", rtt)?;
                dict.set_item("inter_packet", inter_packet)?;
                dict.set_item("delta", delta)?;
                dict.set_item("congestion_flag", congestion_flag)?;
                "xcp"
            }
            CongestionHeader::XcpReverse { feedback } => {
                dict.set_item("feedback", feedback)?;
                "xcp"
            }
            CongestionHeader::XcpWindow { window, congestion_flag } => {
                dict.set_item("window", window)?;
                dict.set_item("congestion_flag", congestion_flag)?;
                "xcp-r"
            }
            CongestionHeader::Estcp { phase, g, age, filled } => {
                dict.set_item("phase", phase)?;
                dict.set_item("g", g)?;
                dict.set_item("age", age)?;
                dict.set_item("filled", filled)?;
                "estcp"
            }
            CongestionHeader::EstcpBits { bits } => {
                dict.set_item("bits", bits)?;
                "estcp-bits"
            }
            CongestionHeader::Timestamps { received } => {
                dict.set_item("received", received.as_secs_f64())?;
                dict.set_item("received_ps", received.as_ps())?;
                "timestamps"
            }
            CongestionHeader::Survival { probability } => {
                dict.set_item("probability", probability)?;
                "survival"
            }
            CongestionHeader::Corrupted { recent } => {
                let known: Vec<u64> = recent.into_iter().filter(|seq| *seq != NO_SEQ).collect();
                dict.set_item("recent", known)?;
                "corrupted"
            }
        };
        dict.set_item("kind", kind)?;
        Ok(dict.into_any())
    }
}

/// Valid requests.
pub(super) const NEEDED: &str = "expected None, {\"kind\": \"estcp\"} or {\"kind\": \"xcp\", \
    \"rtt\": seconds, \"inter_packet\": seconds, \"delta\": bytes per second}";

/// The request to routers that a dictionary describes; `None` for `None`.
///
/// # Errors
/// `TypeError` if it describes none.
pub(super) fn request(answer: &Bound<'_, PyAny>) -> PyResult<Option<CongestionHeader>> {
    if answer.is_none() {
        return Ok(None);
    }
    let wrong = || PyTypeError::new_err(NEEDED);
    let dict = answer.cast::<PyDict>().map_err(|_| wrong())?;
    let number = |key: &str| -> PyResult<f64> {
        let number = dict.get_item(key)?.and_then(|number| number.extract::<f64>().ok());
        number.filter(|number| number.is_finite()).ok_or_else(wrong)
    };
    let kind = dict.get_item("kind")?.ok_or_else(wrong)?;
    match (kind.extract::<&str>(), dict.len()) {
        (Ok("estcp"), 1) => Ok(Some(ESTCP_UNWRITTEN)),
        (Ok("xcp"), 4) => {
            let (rtt, inter_packet) = (number("rtt")?, number("inter_packet")?);
            if rtt < 0.0 || inter_packet < 0.0 {
                return Err(wrong());
            }
            let delta = number("delta")?;
            Ok(Some(CongestionHeader::Xcp { rtt, inter_packet, delta, congestion_flag: 0 }))
        }
        _ => Err(wrong()),
    }
}
