//! Finds libhawser in HAWSER_LIB_DIR, or else with pkg-config. Building documentation needs neither.
use std::path::PathBuf;
use std::{env, process::exit};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=HAWSER_LIB_DIR");
    println!("cargo:rerun-if-env-changed=DOCS_RS");
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    match env::var_os("HAWSER_LIB_DIR") {
        Some(folder) => link_from(PathBuf::from(folder)),
        None => link_by_pkg_config(),
    }
}

fn link_from(folder: PathBuf) {
    let folder = match folder.canonicalize() {
        Ok(folder) => folder,
        Err(error) => fail(&format!("HAWSER_LIB_DIR is {}: {error}", folder.display())),
    };
    if !folder.join("libhawser.so").exists() {
        fail(&format!(
            "HAWSER_LIB_DIR is {}, which has no libhawser.so. Set it to the folder that has.",
            folder.display()
        ));
    }
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib=hawser");
    println!("cargo:libdir={}", folder.display());
}

fn link_by_pkg_config() {
    match pkg_config::Config::new().range_version("0.1.0".."0.2.0").probe("hawser") {
        Ok(found) => {
            if let Some(folder) = found.link_paths.first() {
                println!("cargo:libdir={}", folder.display());
            }
        }
        Err(error) => fail(&format!(
            "libhawser 0.1 was not found. Install it with its development files (libhawser-dev), or set \
             HAWSER_LIB_DIR to the folder of libhawser.so.\n{error}"
        )),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("hawser-train-sys: {message}");
    exit(1)
}
