//! `windward-bindgen IN.wasm OUT_DIR`: writes the module and its glue for JavaScript, which
//! `build.sh` bundles.

use std::error::Error;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(module), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: windward-bindgen IN.wasm OUT_DIR".into());
    };
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .out_name("engine")
        .web(true)?
        .typescript(true)
        .omit_default_module_path(true)
        // A failure ends an instance of the module; the package goes on with another.
        .reset_state_function(true)
        .remove_name_section(true)
        .remove_producers_section(true);
    Ok(bindgen.generate(out)?)
}
