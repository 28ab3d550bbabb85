"""Checks that memory-bound kernels load 128 bits at a time, as read from the plugin's machine code. A loop over single
elements needs four times as many instructions for the same bytes, and that does not show without a GPU.

Usage:  python3 wide_loads.py libhawser_cuda.so cuobjdump nvdisasm

Every kernel must contain a global load of 128 bits, except those listed below, and every listed kernel must exist and
have none. If nvdisasm is missing, the script exits with 77.
"""
import os
import re
import subprocess
import sys

# Kernels without a wide load, by part of the mangled name.
NARROW = {
    "router_cu": "rows of as many numbers as there are experts",
    "router_balance_cu": "one number for each expert",
    "routed_rows_cu": "tables of indices; rows are copied by Gather and Combine of the same file, which load 128 bits",
    "sdpa_documents_cu": "one number for each document",
    "ends_kernel": "one index for each row",
    "grouped_rows_kernel": "plain tiles of experts",
    "grouped_sums_kernel": "plain tiles of experts",
    "13matmul_kernel": "plain tiles, the fallback for cuBLASLt",
    "merge_kernel": "exact sums, which are a few hundred bytes",
    "partial_sums_kernel": "one sum for each block",
    "expert_activation_cu": "a row's features begin at any element of the fused product",
    "column_dot_kernel": "a column for each thread",
    "row_squares_kernel": "rows of any length",
    "delta_kernel": "heads of any size",
    "attention_sinks_cu": "heads of any size",
    "sum_of_squares_kernel": "one element for each thread keeps the order of sums",
    "nf4_cu": "33 bytes hold 64 numbers",
    "records_cu": "records of 66 and 129 bytes; to encode one, the lanes of a warp read consecutive numbers",
    "muon_cu": "Muon is refused on GPUs",
    "5CountE": "counts indices",
    "8PlaceRowE": "one index for each row",
}


def loads(plugin, cuobjdump, nvdisasm):
    """Returns {kernel: True if it has a global load of 128 bits}, without kernels that load nothing."""
    path = os.path.dirname(nvdisasm) + os.pathsep + os.environ["PATH"]
    command = [cuobjdump, "-sass", plugin]
    found, kernel = {}, ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}) as process:
        for line in process.stdout:
            if match := re.match(r"\s*Function : (\S+)", line):
                kernel = match[1]
            elif " LDG" in line:
                found[kernel] = found.get(kernel, False) or ".128" in line
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed")
    return found


def main():
    plugin, cuobjdump, nvdisasm = sys.argv[1:4]
    if not os.path.exists(nvdisasm):
        print(f"skipped: there is no {nvdisasm}")
        sys.exit(77)
    found = loads(plugin, cuobjdump, nvdisasm)
    wrong = [f"{kernel}: no load of 128 bits" for kernel, wide in sorted(found.items())
             if not wide and not any(part in kernel for part in NARROW)]
    wrong += [f"{part} is listed as narrow, but no kernel of this name is" for part in NARROW
              if not any(part in kernel and not wide for kernel, wide in found.items())]
    print("\n".join(wrong) or f"{sum(found.values())} of {len(found)} kernels load 128 bits, the others are listed")
    sys.exit(1 if wrong or not found else 0)


if __name__ == "__main__":
    main()
