# Sourced by the scripts of examples/, text_module.sh and tests/run.sh. install_packages NAME... installs the named Debian packages that
# are missing, as root or with sudo. On other systems than Debian it installs nothing.
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
  ${as_root[@]+"${as_root[@]}"} apt-get update -qq
  ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}
