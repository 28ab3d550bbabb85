#!/usr/bin/env bash
# Runs the test of cuDNN's plans on a machine without a GPU: cudnn_plans.sh PROGRAM FOLDER CUDA_HEADER [ARGUMENT...]
#
# cuDNN makes plans for a device that is only described, but it opens NVIDIA's driver library first. FOLDER gets a
# library of that name: driver_without_gpu.c, and every other function that cuda.h declares, which answers "no device"
# (100). The real cuDNN and NVRTC come from packaging/cuda_toolkit.sh --plans, which fetches 460 MB once. Without them
# the test is skipped (77).
set -euo pipefail

program=$1 folder=$2 header=$3
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
toolkit=$(bash "$here/../../packaging/cuda_toolkit.sh" --fetch --plans) ||
  { echo "skipped: cuDNN cannot be fetched"; exit 77; }

mkdir -p "$folder"
grep -oE '\bcu[A-Z][A-Za-z0-9_]*' "$header" | sort -u |
  grep -vxFf <(grep -oE '\bcu[A-Z][A-Za-z0-9_]*' "$here/driver_without_gpu.c") |
  sed 's/.*/int &(void) { return 100; }/' >"$folder/others.c"
cc -shared -fPIC -w -o "$folder/libcuda.so.1" "$here/driver_without_gpu.c" "$folder/others.c"
ln -sf libcuda.so.1 "$folder/libcublasLt.so.13"
LD_LIBRARY_PATH=$folder:$toolkit/cudnn/lib "$program" "$@"
