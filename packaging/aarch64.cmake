# CMake toolchain file: compiles for 64-bit Arm with Debian's cross compiler, and runs what it compiled under qemu-user.
# `bash tests/run.sh --arm` installs both (arm64_packages in install_packages.sh), builds with this file and runs tests.
#
#   cmake -S . -B build-arm --toolchain packaging/aarch64.cmake -DHAWSER_CUDA=OFF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# CTest starts programs of the build through it. The loader and the C library are those of libc6:arm64, which lie where
# the programs look for them, so qemu needs no other root.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)

# pkg-config and mpicc are programs of this machine, and they name its libraries.
set(CMAKE_DISABLE_FIND_PACKAGE_PkgConfig ON)
set(CMAKE_DISABLE_FIND_PACKAGE_MPI ON)
