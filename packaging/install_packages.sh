# Sourced by the scripts of examples/, text_module.sh and tests/run.sh. install_packages NAME... installs the named Debian packages that
# are missing, as root or with sudo. NAME:ARCHITECTURE is a package of another architecture, which dpkg then accepts. On
# other systems than Debian it installs nothing.

# What compiles for 64-bit Arm, what runs the result, and libraries (packaging/aarch64.cmake). flatc, and packages of
# headers alone, are those of this machine.
arm64_packages=(g++-aarch64-linux-gnu qemu-user libfmt-dev:arm64 libflatbuffers-dev:arm64 libgtest-dev:arm64
                libsodium-dev:arm64)

install_packages() {
  command -v dpkg-query >/dev/null || { echo "not Debian: taking the packages as given: $*"; return; }
  local missing=() package as_root=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "needs root or sudo to install: ${missing[*]}" >&2; exit 2; }
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}"
  for package in "${missing[@]}"; do
    [[ $package == *:* ]] || continue
    [ "${package#*:}" = "$(dpkg --print-architecture)" ] ||
      dpkg --print-foreign-architectures | grep -qx "${package#*:}" ||
      ${as_root[@]+"${as_root[@]}"} dpkg --add-architecture "${package#*:}"
  done
  ${as_root[@]+"${as_root[@]}"} apt-get update -qq
  ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}
