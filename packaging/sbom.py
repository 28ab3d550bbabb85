#!/usr/bin/env python3
"""Writes the software bill of materials (SBOM) of Hawser's binaries as SPDX 2.3 JSON.

    sbom.py OUT --compiler C++ [--include FOLDER]... [--static-libstdc++] [--cuda TOOLKIT]

Names and licences come from THIRD_PARTY.txt in this folder, versions from the headers that the compiler finds.
libstdc++ is listed only if it is linked statically, and NVIDIA's code only with --cuda. The time is SOURCE_DATE_EPOCH
if set, otherwise the time of the last commit, so that the same source gives the same bytes.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each project states its version in a header, as these macros.
VERSIONS = {
    "FlatBuffers": ("flatbuffers/base.h",
                    "FLATBUFFERS_VERSION_MAJOR FLATBUFFERS_VERSION_MINOR FLATBUFFERS_VERSION_REVISION"),
    "nlohmann-json": ("nlohmann/json.hpp", "NLOHMANN_JSON_VERSION_MAJOR NLOHMANN_JSON_VERSION_MINOR NLOHMANN_JSON_VERSION_PATCH"),
    "fmt": ("fmt/core.h", "FMT_VERSION/10000 FMT_VERSION/100%100 FMT_VERSION%100"),
    "xxHash": ("xxhash.h", "XXH_VERSION_MAJOR XXH_VERSION_MINOR XXH_VERSION_RELEASE"),
    "CLI11": ("CLI/Version.hpp", "CLI11_VERSION_MAJOR CLI11_VERSION_MINOR CLI11_VERSION_PATCH"),
    "libstdc++": ("cstddef", "__GNUC__ __GNUC_MINOR__ __GNUC_PATCHLEVEL__"),
    "CUDA runtime": ("cuda_runtime_api.h", "CUDART_VERSION/1000 CUDART_VERSION%1000/10"),
    "cuDNN frontend": ("cudnn_frontend_version.h",
                       "CUDNN_FRONTEND_MAJOR_VERSION CUDNN_FRONTEND_MINOR_VERSION CUDNN_FRONTEND_PATCH_VERSION"),
}
CUDA = ("CUDA runtime", "cuDNN frontend")
LOADED = {"glibc": "LGPL-2.1-or-later", "libsodium": "ISC"}  # loaded from the system at run time


def hawser_version():
    """Returns the version of project(hawser VERSION ...) in CMakeLists.txt, the only place that defines it."""
    return re.search(r"project\(hawser VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def third_party():
    """Returns the sections of THIRD_PARTY.txt, each as a dict of its fields."""
    sections = (ROOT / "packaging/THIRD_PARTY.txt").read_text().split("=" * 100 + "\n")[1:]
    parts = []
    for section in sections:
        fields = re.findall(r"^(Name|License|Homepage|Copyright): (.*)$", section.split("\n\n")[0], re.M)
        part = {key: value for key, value in fields}
        part["Copyright"] = "; ".join(value for key, value in fields if key == "Copyright")
        parts.append(part)
    return parts


def version_of(name, compiler, includes):
    """Returns the version in the header of `name`, or None if the compiler does not find the header."""
    header, parts = VERSIONS[name]
    marked = " ".join(f"@{part}@" for part in parts.split())
    result = subprocess.run([compiler, "-std=c++20", "-x", "c++", "-E", "-P", *(f"-I{i}" for i in includes), "-"],
                            input=f"#include <{header}>\n{marked}\n", text=True, capture_output=True)
    if result.returncode != 0:
        return None
    values = re.findall(r"@\s*([0-9/% ]+?)\s*@", result.stdout.replace("\n", ""))
    return ".".join(str(arithmetic(value)) for value in values)


def arithmetic(text):
    """Returns the value of a chain of divisions and remainders, such as 90100 / 100 % 100."""
    tokens = re.findall(r"\d+|[/%]", text)
    value = int(tokens[0])
    for operator, number in zip(tokens[1::2], tokens[2::2]):
        value = value // int(number) if operator == "/" else value % int(number)
    return value


def created():
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        commit = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], text=True, capture_output=True)
        epoch = commit.stdout.strip() or datetime.datetime.now().timestamp()
    return datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def package(name, version, license, homepage="NOASSERTION", copyright="NOASSERTION"):
    entry = {"name": name, "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", name.replace("+", "p")),
             "downloadLocation": homepage, "filesAnalyzed": False, "licenseConcluded": license,
             "licenseDeclared": license, "copyrightText": copyright}
    if version:
        entry["versionInfo"] = version
    return entry


def spdx(name, packages, relationships):
    """Returns an SPDX document as a dict, from packages and (element, relationship, element) triples."""
    version = hawser_version()
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}",
        "documentNamespace": f"https://hawser.invalid/spdx/{name}-{version}",
        "creationInfo": {"created": created(), "creators": ["Tool: hawser-sbom.py"]},
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relationships],
    }


def text_of(document):
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def document(arguments):
    """Returns the SPDX document of the library and the command, as a dict."""
    version = hawser_version()
    hawser = package("hawser", version, "Apache-2.0", copyright="The Hawser developers")
    hawser["supplier"] = "Organization: The Hawser developers"
    packages, relationships = [hawser], [("SPDXRef-DOCUMENT", "DESCRIBES", hawser["SPDXID"])]
    for part in third_party():
        name = part["Name"]
        found = version_of(name, arguments.compiler, arguments.include)
        if name in CUDA and (not arguments.cuda or found is None):
            continue
        if found is None:
            raise SystemExit(f"sbom.py: {arguments.compiler} does not find {VERSIONS[name][0]} of {name}")
        entry = package(name, found, part["License"], part["Homepage"], part["Copyright"])
        packages.append(entry)
        dynamic = name == "libstdc++" and not arguments.static_libstdcxx
        relationships.append((hawser["SPDXID"], "DYNAMIC_LINK" if dynamic else "STATIC_LINK", entry["SPDXID"]))
    for name, license in LOADED.items():
        entry = package(name, None, license)
        packages.append(entry)
        relationships.append((hawser["SPDXID"], "DYNAMIC_LINK", entry["SPDXID"]))
    result = spdx("hawser", packages, relationships)
    if arguments.cuda:
        result["hasExtractedLicensingInfos"] = [{
            "licenseId": "LicenseRef-NVIDIA-CUDA-EULA", "name": "NVIDIA CUDA Toolkit License Agreement",
            "extractedText": "NVIDIA's license agreement for the CUDA Toolkit, https://docs.nvidia.com/cuda/eula"}]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--static-libstdc++", dest="static_libstdcxx", action="store_true")
    parser.add_argument("--cuda", help="root of the CUDA toolkit that the plugin was built with")
    arguments = parser.parse_args()
    if arguments.cuda:
        arguments.include += [f"{arguments.cuda}/include", f"{arguments.cuda}/cudnn/include"]
    arguments.out.write_text(text_of(document(arguments)))


if __name__ == "__main__":
    main()
