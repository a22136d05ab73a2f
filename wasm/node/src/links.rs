//! Links of the browser in the conformance suite of links.

use js_sys::{Array, Function, Promise};
use pmi_link::conformance::awaited;
use pmi_wasm::{Port, Socket};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

/// Runs the suite over pairs of ports. `connect` promises two that are entangled, and `pause` promises
/// that what was posted has had its turn.
///
/// # Errors
///
/// Those of the two functions; a violation panics.
#[wasm_bindgen]
pub async fn conform_ports(connect: Function, pause: Function) -> Result<(), JsValue> {
    let mut connect = async || {
        let [near, far] = pair(&connect).await;
        (Port::new(near), Port::new(far))
    };
    awaited::all(&mut connect, &mut async || drop(promised(&pause).await)).await;
    Ok(())
}

/// Runs the suite over pairs of web sockets, the second of which is the end of a server.
///
/// # Errors
///
/// As above.
#[wasm_bindgen]
pub async fn conform_sockets(connect: Function, pause: Function) -> Result<(), JsValue> {
    let mut connect = async || {
        let [near, far] = pair(&connect).await;
        (Socket::new(near), Socket::new(far))
    };
    awaited::all(&mut connect, &mut async || drop(promised(&pause).await)).await;
    Ok(())
}

async fn pair(connect: &Function) -> [JsValue; 2] {
    let pair: Array = promised(connect).await.unchecked_into();
    [pair.get(0), pair.get(1)]
}

async fn promised(function: &Function) -> JsValue {
    let promise: Promise = function.call0(&JsValue::NULL).expect("it promises").unchecked_into();
    JsFuture::from(promise).await.expect("promises of a test are kept")
}
