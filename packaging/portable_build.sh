# Sourced by the scripts that make packages. Sets the paths, and defines the build that most of them share.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dist=${HAWSER_DIST:-$root/dist}  # make.sh creates the folder
version=$(sed -n 's/^project(hawser VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
source "$root/packaging/install_packages.sh"

fail() { echo "$(basename "$0"): $*" >&2; exit 2; }
source "$root/packaging/architecture.sh"

# copy_source FOLDER: copies the files that git tracks, with their uncommitted changes, into a new folder.
copy_source() {
  git -C "$root" rev-parse --is-inside-work-tree >/dev/null 2>&1 || fail "$root is no git checkout"
  mkdir -p "$1"
  (cd "$root" && git ls-files -z | tar --null -T - -cf -) | tar -C "$1" -xf -
}

# text_crates: installs Rust and fetches the crates, which the text module needs to build.
text_crates() {
  command -v cargo >/dev/null || [ -x ~/.cargo/bin/cargo ] || install_packages cargo-web
  bash "$root/packaging/text_crates.sh" $processor
}

# portable_build [CMAKE_OPTION...]: sets `build` to a build folder whose library and command run on every Linux with
# glibc 2.34 or later, because they contain libstdc++. If HAWSER_BUILD is set, `build` is that folder instead.
portable_build() {
  build=${HAWSER_BUILD:-}
  [ -z "$build" ] || return 0
  install_packages g++ cmake ninja-build pkg-config python3 nlohmann-json3-dev libflatbuffers-dev \
    flatbuffers-compiler libfmt-dev libxxhash-dev libcli11-dev libsodium-dev
  text_crates
  build=$build_folder
  cross_options
  cmake -S "$root" -B "$build" -G Ninja "${cross[@]}" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DHAWSER_WERROR=OFF \
    -DHAWSER_STATIC_CXX=ON -DHAWSER_CUDA=OFF -DHAWSER_TEXT=ON -DHAWSER_SANITIZE= -DHAWSER_CPU_LEVELS= "$@"
  cmake --build "$build" --parallel "${HAWSER_JOBS:-$(nproc)}"
}

# python_tools FOLDER: makes a Python environment with requirements.txt, once, and sets `tools` to its bin folder.
python_tools() {
  tools=$1/bin
  [ ! -f "$1/$(cksum <"$root/packaging/requirements.txt" | tr ' ' -)" ] || return 0
  rm -rf "$1"
  python3 -m venv "$1"
  "$tools/pip" install --quiet --disable-pip-version-check -r "$root/packaging/requirements.txt"
  touch "$1/$(cksum <"$root/packaging/requirements.txt" | tr ' ' -)"
}
