#!/usr/bin/env bash
# Finds or fetches a CUDA toolkit and prints its folder (which contains bin/nvcc), for cmake -DHAWSER_CUDA_TOOLKIT=.
#
#   packaging/cuda_toolkit.sh [--fetch] [--cudnn] [--libraries] [--plans]
#
#   (none)       uses nvcc of the PATH, /usr/local/cuda or the folder that an earlier run made; otherwise fetches the
#                toolkit from PyPI (105 MB)
#   --fetch      uses PyPI (or the folder of an earlier run) even if there is a system toolkit
#   --cudnn      also fetches the headers of cuDNN and of its frontend, which attention with cuDNN needs. Only the
#                headers are kept, but PyPI's package includes the library (400 MB to fetch).
#   --libraries  also fetches the headers of cuBLASLt and NCCL. Only tests that compare our declarations with these
#                headers need them. No build needs the libraries, because the plugin opens them at run time.
#   --plans      also fetches the libraries cuDNN and NVRTC (460 MB to fetch, 1 GB on disk). Only the test of cuDNN's
#                plans needs them; it needs no GPU.
#
# The folder is ${XDG_CACHE_HOME:-$HOME/.cache}/hawser/cuda-VERSION. Needs python3 with pip (or venv) to fetch.
set -euo pipefail

version=13.0.88  # nvcc's version
compiler=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
          nvidia-cuda-cccl==13.0.85)
# Not on PyPI for 13.0; 5 MB, for the tests of the kernels' machine code.
disassembler=(nvidia-cuda-cuobjdump==13.2.78 nvidia-cuda-nvdisasm==13.2.78)
cudnn=(nvidia-cudnn-cu13==9.19.0.56)
frontend=(nvidia-cudnn-frontend==1.18.0)  # only headers, 2 MB
compiler_of_plans=(nvidia-cuda-nvrtc==13.0.88)
cublas=(nvidia-cublas==13.1.0.3) nccl=(nvidia-nccl-cu13==2.28.9)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/hawser/cuda-$version

fail() { echo "cuda_toolkit.sh: $*" >&2; exit 2; }

fetch=no with_cudnn=no with_libraries=no with_plans=no
for argument in "$@"; do
  case "$argument" in
    --fetch) fetch=yes ;;
    --cudnn) with_cudnn=yes ;;
    --libraries) with_cudnn=yes with_libraries=yes ;;
    --plans) with_cudnn=yes with_plans=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument $argument (see --help)" ;;
  esac
done

# Prints a pip command that can download: python3's own pip, or the pip of a throw-away environment.
pip_of() {
  if python3 -m pip --version >/dev/null 2>&1; then echo "python3 -m pip"; return; fi
  python3 -m venv "$1/venv" >/dev/null 2>&1 || fail "python3 has neither pip nor venv: install python3-pip or python3-venv"
  echo "$1/venv/bin/python -m pip"
}

# download FOLDER PATTERN WHEEL...: unpacks the files of each wheel whose names match PATTERN (by Python's re.match).
download() {
  local into=$1 pattern=$2 pip
  shift 2
  pip=$(pip_of "$scratch")
  $pip download --quiet --no-deps --disable-pip-version-check --dest "$scratch/wheels" "$@" >&2
  python3 - "$scratch/wheels" "$into" "$pattern" <<'PYTHON'
import pathlib, re, sys, zipfile
wheels, into, pattern = sys.argv[1:]
for wheel in sorted(pathlib.Path(wheels).glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into, [n for n in archive.namelist() if re.match(pattern, n)])
    wheel.unlink()
PYTHON
}

# Unpacks the compiler elsewhere and then renames the folder, so that nobody sees an incomplete toolkit.
fetch_compiler() {
  [ -x "$folder/bin/nvcc" ] && return
  download "$scratch/compiler" nvidia/ "${compiler[@]}"
  local root=$scratch/compiler/nvidia/cu13
  chmod +x "$root"/bin/* "$root"/nvvm/bin/*
  ln -s lib "$root/lib64"                     # nvcc searches lib64
  mkdir -p "$(dirname "$folder")"
  mv -T "$root" "$folder" 2>/dev/null || [ -x "$folder/bin/nvcc" ] || fail "cannot write $folder"
}

# Fetches the disassembler, which the folder of an earlier run may lack. No build needs it.
fetch_disassembler() {
  local bin=$scratch/disassembler/nvidia/cu13/bin
  [ -x "$folder/bin/nvdisasm" ] && return
  download "$scratch/disassembler" nvidia/cu13/bin/ "${disassembler[@]}" && chmod +x "$bin"/* &&
    mv "$bin/cuobjdump" "$bin/nvdisasm" "$folder/bin/"
}

# fetch_headers INTO SIGN WHEEL...: puts the headers of the wheels into the folder INTO, unless it contains the marker
# file SIGN.
fetch_headers() {
  local into=$folder/$1 sign=$2
  shift 2
  [ -e "$into/$sign" ] && return
  download "$scratch/headers" '(nvidia/.*/)?include/' "$@"
  mkdir -p "$into" "$into.new.$$" "$into.sign.$$"
  find "$scratch/headers" -type d -name include -exec cp -rT {} "$into.new.$$" \;
  # The marker file is moved in last: if it exists, the folder is complete.
  mv "$into.new.$$/$sign" "$into.sign.$$/"
  cp -rT "$into.new.$$" "$into" && mv "$into.sign.$$/$sign" "$into/$sign" || fail "cannot write $into"
  rm -rf "$into.new.$$" "$into.sign.$$" "$scratch/headers"
}

# Fetches the libraries that make cuDNN's plans. The folder is renamed when it is complete.
fetch_plan_libraries() {
  [ -d "$folder/cudnn/lib" ] && return
  download "$scratch/plans" 'nvidia/.*/lib/' "${cudnn[@]}" "${compiler_of_plans[@]}"
  mkdir -p "$scratch/plans/lib"
  find "$scratch/plans/nvidia" -name '*.so*' -exec mv -t "$scratch/plans/lib" {} +
  mv -T "$scratch/plans/lib" "$folder/cudnn/lib" 2>/dev/null || [ -d "$folder/cudnn/lib" ] ||
    fail "cannot write $folder/cudnn/lib"
}

system=""
if [ "$fetch" = no ]; then
  if command -v nvcc >/dev/null; then
    system=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
  elif [ -x /usr/local/cuda/bin/nvcc ]; then
    system=/usr/local/cuda
  fi
fi
if [ -n "$system" ]; then
  echo "$system"
  exit 0
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hawser-cuda.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fetch_compiler
fetch_disassembler || echo "cuda_toolkit.sh: no cuobjdump and nvdisasm: the machine code of kernels stays untested" >&2
if [ "$with_cudnn" = yes ]; then
  fetch_headers cudnn/include cudnn_graph.h "${cudnn[@]}"  # the frontend expects a folder of this name
  fetch_headers cudnn/include cudnn_frontend.h "${frontend[@]}"
fi
if [ "$with_plans" = yes ]; then fetch_plan_libraries; fi
if [ "$with_libraries" = yes ]; then
  fetch_headers library_headers cublasLt.h "${cublas[@]}"
  fetch_headers library_headers nccl.h "${nccl[@]}"
fi
echo "$folder"
