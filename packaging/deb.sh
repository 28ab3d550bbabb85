#!/usr/bin/env bash
# Makes Debian packages with debhelper: libhawser0, libhawser-dev, hawser, python3-hawser, libhawser-text0, and
# libhawser-cuda0 if a CUDA toolkit is available.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/portable_build.sh"

# With a finished build (HAWSER_BUILD), libhawser-cuda0 is made if that build has the plugin. Otherwise HAWSER_CUDA
# decides: ON fetches a toolkit if none is found, AUTO (the default) uses a toolkit that is installed or was fetched, and
# OFF leaves the package out. It exists only for amd64, because cuda_toolkit.sh fetches only that toolkit.
cuda_profile() {
  if [ "$architecture" != amd64 ]; then
    export DEB_BUILD_PROFILES=pkg.hawser.nocuda
  elif [ -n "${HAWSER_BUILD:-}" ]; then
    [ -f "$HAWSER_BUILD/hawser-0/libhawser_cuda.so" ] || export DEB_BUILD_PROFILES=pkg.hawser.nocuda
  elif [ "${HAWSER_CUDA:-AUTO}" = ON ] || { [ "${HAWSER_CUDA:-AUTO}" = AUTO ] && toolkit_is_here; }; then
    HAWSER_CUDA_TOOLKIT=$(bash "$root/packaging/cuda_toolkit.sh") || fail "HAWSER_CUDA is ON, and there is no toolkit"
    export HAWSER_CUDA_TOOLKIT
  else
    export DEB_BUILD_PROFILES=pkg.hawser.nocuda
  fi
}

# Leaves python3-hawser out if the finished build has no Python module.
python_profile() {
  if [ -n "${HAWSER_BUILD:-}" ] && ! compgen -G "$HAWSER_BUILD/python/hawser/_native*.so" >/dev/null; then
    export DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES:-} pkg.hawser.nopython"
  fi
}

# Leaves libhawser-text0 out if the finished build has no text module.
text_profile() {
  if [ -n "${HAWSER_BUILD:-}" ]; then
    [ -f "$HAWSER_BUILD/hawser-0/libhawser_text.so" ] || export DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES:-} pkg.hawser.notext"
  else
    text_crates
    export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} PATH=$PATH:$HOME/.cargo/bin
  fi
}

toolkit_is_here() {
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
    compgen -G "${XDG_CACHE_HOME:-$HOME/.cache}/hawser/cuda-*/bin/nvcc" >/dev/null
}

# Prints the changelog with the date of the last commit, so that the same source gives the same packages.
changelog() {
  printf 'hawser (%s-1) unstable; urgency=medium\n\n  * Release %s.\n\n -- %s  %s\n' "$version" "$version" \
    "$(sed -n 's/^Maintainer: //p' "$root/packaging/debian/control")" "$(git -C "$root" log -1 --format=%aD)"
}

cuda_profile
python_profile
text_profile
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/hawser-$version
copy_source "$tree"
cp -a "$tree/packaging/debian" "$tree/debian"
changelog >"$tree/debian/changelog"
options=(--host-arch "$architecture")
cross_options
# For a cross build, the check asks for packages of the other architecture where those of this machine do.
if [ -n "${HAWSER_BUILD:-}" ] || [ -n "$toolchain" ]; then options+=(--no-check-builddeps); fi
if [ -n "${HAWSER_BUILD:-}" ]; then
  install_packages debhelper dh-python
else
  install_packages debhelper dh-python python3-dev swig cmake flatbuffers-compiler libcli11-dev libflatbuffers-dev libfmt-dev \
    libsodium-dev libxxhash-dev ninja-build nlohmann-json3-dev pkg-config
  # PyPI's SWIG, unlike Debian's 4.1, makes one module for bookworm's Python and all later versions.
  python_tools "$root/build-packages/package-tools"
  mkdir "$work/bin"
  ln -s "$tools/swig" "$work/bin"
  export PATH=$work/bin:$PATH
  export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}  # debhelper changes HOME
fi
HAWSER_COMMIT=$(git -C "$root" rev-parse --short=12 HEAD)
HAWSER_CROSS=${cross[*]}
export HAWSER_COMMIT HAWSER_CROSS DEB_BUILD_OPTIONS="parallel=${HAWSER_JOBS:-$(nproc)}"
(cd "$tree" && dpkg-buildpackage --build=binary --unsigned-changes "${options[@]}") >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
rm -f "$dist"/*_"$architecture".{deb,changes,buildinfo}
mv "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$dist"
ls "$dist"/*_"$architecture".deb
