//! `xtask-bindgen web|node MODULE.wasm DIR`: writes the module and the JavaScript that loads it.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [kind, module, directory] => write(kind, Path::new(module), Path::new(directory)),
        _ => Err("usage: xtask-bindgen web|node MODULE.wasm DIRECTORY".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask-bindgen: {why}");
            ExitCode::FAILURE
        }
    }
}

fn write(kind: &str, module: &Path, directory: &Path) -> Result<(), String> {
    let mut bindgen = Bindgen::new();
    let chosen = match kind {
        // Otherwise the function that loads the module would need its address as an argument.
        "web" => bindgen.omit_default_module_path(false).web(true),
        "node" => bindgen.nodejs(true),
        _ => return Err(format!("there is `web` and `node`, not `{kind}`")),
    };
    let written = chosen.and_then(|bindgen| {
        bindgen
            .input_path(module)
            .typescript(false)
            .remove_name_section(true)
            .remove_producers_section(true)
            .generate(directory)
    });
    written.map_err(|error| format!("{}: {error:#}", module.display()))
}
