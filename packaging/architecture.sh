# Sourced by portable_build.sh. Sets everything in which the packages of one architecture differ from those of another.
# HAWSER_ARCH is amd64 (the default, built by this machine's compiler) or arm64 (built by Debian's cross compiler).
#   processor        name of the architecture in CMake, wheels, jars and the tarball
#   conda_platform   its name in conda
#   tool_prefix      prefix of the binutils that read and strip its files
#   build_folder     where its packages are built
#   wheel_platform   what auditwheel is asked for: it accepts only platforms of this machine, and finds others by itself
#   toolchain        CMake toolchain file, or ""
architecture=${HAWSER_ARCH:-amd64}
case "$architecture" in
  amd64)
    processor=x86_64 conda_platform=linux-64 tool_prefix="" build_folder=$root/build-packages toolchain=""
    wheel_platform=manylinux_2_34_x86_64
    ;;
  arm64)
    processor=aarch64 conda_platform=linux-aarch64 tool_prefix=aarch64-linux-gnu- build_folder=$root/build-packages-arm64
    toolchain=$root/packaging/aarch64.cmake wheel_platform=auto
    ;;
  *) fail "no packages for the architecture $architecture; known: amd64, arm64" ;;
esac

# cross_options: installs the cross compiler and sets `cross`, the options of CMake for it; none for this machine.
cross_options() {
  cross=()
  [ -n "$toolchain" ] || return 0
  install_packages "${arm64_packages[@]}"
  target_root=$(bash "$root/packaging/arm64_root.sh") || fail "no arm64 packages of Debian"
  cross=(--toolchain "$toolchain" "-DHAWSER_TARGET_ROOT=$target_root")
}
