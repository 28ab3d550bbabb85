#!/usr/bin/env python3
"""Writes the notices of the text module's crates, and the module's SBOM as SPDX 2.3 JSON.

    crate_notices.py MANIFEST CARGO NOTICES SBOM

Names, versions and licences are those of the crates that `cargo metadata` resolves offline. Every crate that permits
the Apache License 2.0 is used under it, so Hawser's LICENSE has its text. NOTICES contains the licence files of all
other crates.
"""
import json
import pathlib
import re
import subprocess
import sys

import sbom

TARGET = "x86_64-unknown-linux-gnu"
RUST = {"name": "Rust standard library", "license": "MIT OR Apache-2.0", "repository": "https://www.rust-lang.org",
        "authors": ["The Rust Project contributors"]}
FILES = re.compile(r"^(licen[cs]e|copying|unlicense|notice)", re.I)


def crates(manifest, cargo):
    """Returns the crates that are compiled into the module, sorted by name, without build scripts and procedural
    macros."""
    command = [cargo, "metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(command, cwd=manifest.parent, capture_output=True, text=True, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
             for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    found, open_ = set(), [root]
    while open_:
        one = open_.pop()
        if one in found or "proc-macro" in packages[one]["targets"][0]["kind"]:
            continue
        found.add(one)
        open_ += needs[one]
    rustc = pathlib.Path(cargo).with_name("rustc")
    version = subprocess.run([rustc if rustc.exists() else "rustc", "--version"], capture_output=True, text=True, check=True)
    rust = {**RUST, "version": version.stdout.split()[1], "manifest_path": None}
    return sorted((packages[one] for one in found - {root}), key=lambda package: package["name"]) + [rust]


def is_apache(license):
    """True if one of the alternatives is the Apache License alone. Older crates write / for OR."""
    return "Apache-2.0" in re.split(r"\s+OR\s+|/", license)


def licence_files(crate):
    """Returns the licence texts of the crate and of third-party sources in it, such as Oniguruma, sorted by path."""
    if crate["manifest_path"] is None:
        return []
    folder = pathlib.Path(crate["manifest_path"]).parent
    files = [path for depth in ("*", "*/*", "*/*/*") for path in folder.glob(depth)
             if FILES.match(path.name) and path.is_file() and path.suffix not in (".rs", ".h", ".c", ".py", ".html")]
    return [path for path in sorted(files) if not is_apache(crate["license"]) or path.parent != folder
            or path.name.lower().startswith("notice")]


def notice(crate, all_crates):
    lines = ["=" * 100, f"Name: {crate['name']}", f"Version: {crate['version']}", f"License: {crate['license']}",
             f"Homepage: {crate.get('repository') or crate.get('homepage') or 'https://crates.io/crates/' + crate['name']}",
             *(f"Author: {author}" for author in crate["authors"]), ""]
    if is_apache(crate["license"]):
        lines += ["Used under the Apache License 2.0, whose text is that of Hawser's own LICENSE.", ""]
    texts = licence_files(crate)
    if not texts and not is_apache(crate["license"]):  # other crates of its repository may have the text
        siblings = [other for other in all_crates if other.get("repository") == crate["repository"]]
        texts = next((files for files in map(licence_files, siblings) if files), [])
    if not texts and not is_apache(crate["license"]):
        raise SystemExit(f"crate_notices.py: {crate['name']} {crate['version']} ({crate['license']}) has no licence file")
    for path in texts:
        lines += [path.read_text(errors="replace").strip(), ""]
    return "\n".join(lines)


def write_sbom(path, all_crates):
    module = sbom.package("libhawser_text", sbom.hawser_version(), "Apache-2.0", copyright="The Hawser developers")
    packages, relationships = [module], [("SPDXRef-DOCUMENT", "DESCRIBES", module["SPDXID"])]
    for crate in all_crates:
        entry = sbom.package(crate["name"], crate["version"], crate["license"].replace("/", " OR "),
                             crate.get("repository") or "NOASSERTION", "; ".join(crate["authors"]) or "NOASSERTION")
        entry["SPDXID"] += "-" + re.sub(r"[^A-Za-z0-9.]+", "-", crate["version"])  # a crate may occur in two versions
        packages.append(entry)
        relationships.append((module["SPDXID"], "STATIC_LINK", entry["SPDXID"]))
    path.write_text(sbom.text_of(sbom.spdx("hawser-text", packages, relationships)))


def main():
    manifest, cargo, notices, out = sys.argv[1:]
    all_crates = crates(pathlib.Path(manifest).resolve(), cargo)
    pathlib.Path(notices).write_text(
        "libhawser_text.so is Hawser's, under the Apache License 2.0 (LICENSE). It contains compiled code of these crates.\n\n"
        + "\n".join(notice(crate, all_crates) for crate in all_crates) + "\n")
    write_sbom(pathlib.Path(out), all_crates)


if __name__ == "__main__":
    main()
