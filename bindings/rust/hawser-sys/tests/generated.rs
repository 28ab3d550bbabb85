//! Tests that `src/bindings.rs` equals bindgen's output for the current header. HAWSER_BINDGEN is set if
//! bindgen is installed.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

#[test]
fn bindings_are_those_of_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = root.join("../../../capi/include/hawser.h");
    if env::var_os("HAWSER_BINDGEN").is_none() || !header.exists() {
        return eprintln!(
            "no bindgen (HAWSER_BINDGEN is not set), or outside of Hawser's tree: not compared"
        );
    }
    let made = Command::new(root.join("generate.sh")).arg(header).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let committed = fs::read(root.join("src/bindings.rs")).unwrap();
    assert!(
        made.stdout == committed,
        "src/bindings.rs is not what bindgen makes of hawser.h: run ./generate.sh HEADER > src/bindings.rs"
    );
}
