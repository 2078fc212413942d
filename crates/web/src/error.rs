//! Errors for JavaScript.

use serde::Serialize;
use wasm_bindgen::JsValue;
use windward_sim::scenario::file::ScenarioError;

/// An error: the words of the program, and their parts for an editor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
// Boxed, since most functions return a value or this.
pub struct Wrong(Box<Parts>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Parts {
    /// The error as the program prints it.
    text: String,
    /// The line in the scenario, counted from 1.
    line: Option<usize>,
    /// The character of the line, counted from 1.
    column: Option<usize>,
    /// The dotted key.
    key: Option<String>,
    /// The description alone.
    message: String,
    /// The nearest valid word.
    suggestion: Option<String>,
}

impl Wrong {
    /// An error that is not about a place of the scenario.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Wrong(Box::new(Parts {
            text: message.clone(),
            message,
            line: None,
            column: None,
            key: None,
            suggestion: None,
        }))
    }
}

impl From<ScenarioError> for Wrong {
    fn from(error: ScenarioError) -> Self {
        Wrong(Box::new(Parts {
            text: error.to_string(),
            line: error.line(),
            column: error.column(),
            key: error.key().map(str::to_owned),
            message: error.message().to_owned(),
            suggestion: error.suggestion().map(str::to_owned),
        }))
    }
}

impl From<Wrong> for JsValue {
    fn from(wrong: Wrong) -> JsValue {
        JsValue::from_str(&crate::json(&wrong))
    }
}
