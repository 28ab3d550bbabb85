//! Finds libhawser in HAWSER_LIB_DIR, or else with pkg-config. Building documentation needs neither.
use std::path::{Path, PathBuf};
use std::{env, fs::File, io::Read, process::exit};

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
    require_target(&folder);
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib=hawser");
    println!("cargo:libdir={}", folder.display());
}

fn link_by_pkg_config() {
    match pkg_config::Config::new().range_version("0.1.0".."0.2.0").probe("hawser") {
        Ok(found) => {
            if let Some(folder) = found.link_paths.first() {
                require_target(folder);
                println!("cargo:libdir={}", folder.display());
            }
        }
        Err(error) => fail(&format!(
            "libhawser 0.1 was not found. Install it with its development files (libhawser-dev), or set \
             HAWSER_LIB_DIR to the folder of libhawser.so.\n{error}"
        )),
    }
}

/// Refuses a library for processors of another architecture, which the linker would skip without naming either.
fn require_target(folder: &Path) {
    let target = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let library = folder.join("libhawser.so");
    if let Some(machine) = elf_machine(&library).filter(|machine| *machine != target) {
        fail(&format!(
            "{} is for {machine} processors, but this build is for {target}. Set HAWSER_LIB_DIR to the folder of a \
             libhawser.so for {target}, or build with --target {machine}-unknown-linux-gnu.",
            library.display()
        ));
    }
}

/// Returns the architecture of an ELF file by Rust's name for it, or None if it is no such file.
fn elf_machine(path: &Path) -> Option<String> {
    let mut header = [0; 20];
    File::open(path).ok()?.read_exact(&mut header).ok()?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    Some(match u16::from_le_bytes([header[18], header[19]]) {
        62 => "x86_64".into(),
        183 => "aarch64".into(),
        number => format!("ELF machine {number}"),
    })
}

fn fail(message: &str) -> ! {
    eprintln!("hawser-train-sys: {message}");
    exit(1)
}
