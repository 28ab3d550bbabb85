//! Tests that the crate calls every function of hawser.h and has a code for every status.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hawser::Code;

fn words(text: &str, prefix: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with(prefix))
        .map(str::to_owned)
        .collect()
}

#[test]
fn nothing_of_the_header_is_missing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(header) = fs::read_to_string(root.join("../../../capi/include/hawser.h")) else {
        return eprintln!("outside of Hawser's tree: no header to read");
    };
    let mut code = String::new();
    for file in fs::read_dir(root.join("src")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        code.extend(
            text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]),
        );
    }
    let used = words(&code, "hws_");
    let declared = header.lines().filter(|line| line.starts_with("HWS_API ") && line.contains('('));
    let functions: Vec<String> =
        declared.map(|line| words(line.split('(').next().unwrap(), "hws_").pop_last().unwrap()).collect();
    assert!(functions.len() > 70, "{functions:?}");
    let missing: Vec<_> = functions.iter().filter(|name| !used.contains(*name)).collect();
    assert!(missing.is_empty(), "no source of the crate calls {missing:?}");

    let defined: Vec<(&str, i32)> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define HWS_")?.split_once(' '))
        .take_while(|(name, _)| *name != "ABI_VERSION")
        .filter_map(|(name, number)| Some((name, number.parse().ok()?)))
        .collect();
    assert!(defined.len() > 25, "{defined:?}");
    for (name, number) in defined {
        let code = Code::from_status(number);
        assert_eq!((code.status(), code.name()), (number, format!("HWS_{name}").as_str()));
        assert!(name == "OK" || !matches!(code, Code::Unlisted(_)), "HWS_{name} has no code");
    }
    assert_eq!(Code::from_status(12345).name(), "HWS_UNKNOWN");
}

#[test]
fn versions_are_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(cmake) = fs::read_to_string(root.join("../../../CMakeLists.txt")) else {
        return eprintln!("outside of Hawser's tree: no CMakeLists.txt to read");
    };
    let version = cmake.split("project(hawser VERSION ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(env!("CARGO_PKG_VERSION"), version);
    assert_eq!(hawser::library_version(), version);
    assert_eq!(hawser::library_abi(), hawser::ABI_VERSION);
    assert_eq!(hawser::library_info().unwrap()["version"], version);
}
