#![forbid(unsafe_code)]
//! The parts of this project that run in a browser, for the tests in `tests/` that Node runs.

pub mod job;
pub mod links;
pub mod traces;

use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console)]
    fn error(text: &str);
}

/// Prints the message of a panic; Node alone would print only that there was one.
#[wasm_bindgen(start)]
pub fn begin() {
    std::panic::set_hook(Box::new(|panic| error(&panic.to_string())));
}
