//! Bindings to the few items of JavaScript that this crate needs, by their names: any environment
//! that has them will do, as a browser, Node, or a package that imitates one of the two.

use js_sys::{ArrayBuffer, Function, Uint8Array};
use wasm_bindgen::prelude::{Closure, wasm_bindgen};
use wasm_bindgen::{JsCast, JsValue};

#[wasm_bindgen]
extern "C" {
    #[derive(Debug)]
    pub(crate) type MessagePort;

    #[wasm_bindgen(method, catch, js_name = postMessage)]
    pub(crate) fn post(this: &MessagePort, message: &JsValue) -> Result<(), JsValue>;

    #[wasm_bindgen(method)]
    pub(crate) fn start(this: &MessagePort);

    #[wasm_bindgen(method)]
    pub(crate) fn close(this: &MessagePort);

    #[derive(Debug)]
    pub(crate) type WebSocket;

    #[wasm_bindgen(method, getter, js_name = readyState)]
    pub(crate) fn ready_state(this: &WebSocket) -> u32;

    #[wasm_bindgen(method, getter, js_name = bufferedAmount)]
    pub(crate) fn buffered_amount(this: &WebSocket) -> f64;

    #[wasm_bindgen(method, setter, js_name = binaryType)]
    pub(crate) fn set_binary_type(this: &WebSocket, kind: &str);

    #[wasm_bindgen(method, catch)]
    pub(crate) fn send(this: &WebSocket, bytes: &Uint8Array) -> Result<(), JsValue>;

    #[wasm_bindgen(method, js_name = close)]
    pub(crate) fn close(this: &WebSocket);

    pub(crate) type Target;

    #[wasm_bindgen(method, js_name = addEventListener)]
    fn add_event_listener(this: &Target, event: &str, listener: &Function);

    pub(crate) type Event;

    #[wasm_bindgen(method, getter)]
    pub(crate) fn data(this: &Event) -> JsValue;

    #[wasm_bindgen(method, getter, js_name = wasClean)]
    pub(crate) fn was_clean(this: &Event) -> Option<bool>;

    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(crate) fn milliseconds() -> f64;

    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(then: &Function, milliseconds: u32) -> JsValue;
}

/// Calls `on_event` for every `event` of `target`, for as long as there is a target.
pub(crate) fn on(target: &JsValue, event: &str, on_event: impl FnMut(Event) + 'static) {
    // The garbage collector of JavaScript drops the closure with the target. `on_event` itself
    // checks whether its receiver still exists.
    let listener = Closure::<dyn FnMut(Event)>::new(on_event).into_js_value();
    target.unchecked_ref::<Target>().add_event_listener(event, listener.unchecked_ref());
}

/// Calls `then` once, a little later.
pub(crate) fn call_later(milliseconds: u32, then: impl FnOnce() + 'static) {
    let then = Closure::once_into_js(then);
    set_timeout(then.unchecked_ref(), milliseconds);
}

/// The bytes of a message, if it is one of bytes.
pub(crate) fn bytes(data: &JsValue) -> Option<Uint8Array> {
    let view = data.dyn_ref::<Uint8Array>().cloned();
    view.or_else(|| data.dyn_ref::<ArrayBuffer>().map(|buffer| Uint8Array::new(buffer)))
}
