"""Checks the resources that compiled kernels need, as read from the plugin. A block that does not fit into a
multiprocessor fails to launch, and registers that spill make a kernel slow. Neither shows without a GPU, but the machine
code contains both.

Usage:  python3 kernel_resources.py libhawser_cuda.so cuobjdump

Checks for every kernel that it states its most threads per block (__launch_bounds__) and that the registers of that many
threads fit. Only the kernels listed below may use local memory, up to the listed bytes.
"""
import re
import subprocess
import sys

REGISTERS = 65536  # registers of a multiprocessor, compute capability 7.0 and newer
# Bytes of local memory that a thread may have, by part of the kernel's name; all other kernels have none.
LOCAL = {
    "OrderedSums": 400,            # the stack of a tree over members
    "norm_backward_kernel": 400,   # rows of more than 8192 elements
    "13matmul_kernel": 8,          # the tiled product on sm_80, the fallback for cuBLASLt
    "routed_rows_cu": 8,           # a division of 64-bit numbers is a call
    "magnitude_cu": 8,             # a division of 64-bit numbers is a call
    "embedding_cu": 8,             # a division of 64-bit numbers is a call
    "attention_forward_kernel": 64,
    "key_gradients_kernel": 32,
    "query_gradients_kernel": 32,
}


def text_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def resources(plugin, cuobjdump):
    """Returns {(architecture, kernel): (registers, bytes of stack)}."""
    found, architecture, kernel = {}, "", ""
    for line in text_of(cuobjdump, "-res-usage", plugin).splitlines():
        if line.startswith("arch ="):
            architecture = line.split()[-1]
        elif match := re.match(r" Function (\S+):", line):
            kernel = match[1]
        elif match := re.match(r"\s*REG:(\d+) STACK:(\d+) .*LOCAL:(\d+)", line):
            found[architecture, kernel] = int(match[1]), int(match[2]) + int(match[3])
    return found


def most_threads(plugin, cuobjdump):
    """Returns {(architecture, kernel): threads of its largest block}."""
    found, architecture, kernel, next_is_value = {}, "", "", False
    for line in text_of(cuobjdump, "-elf", plugin).splitlines():
        if line.startswith("arch ="):
            architecture = line.split()[-1]
        elif line.startswith("."):
            kernel = line.removeprefix(".nv.info.").strip()
        elif "EIATTR_MAX_THREADS" in line:
            next_is_value = True
        elif next_is_value and "Value:" in line:
            x, y, z = (int(word, 16) for word in line.split()[1:4])
            found[architecture, kernel] = x * y * z
            next_is_value = False
    return found


def complaints(plugin, cuobjdump):
    used, bounds = resources(plugin, cuobjdump), most_threads(plugin, cuobjdump)
    if not used:
        yield f"{plugin} has no kernels that {cuobjdump} can read"
    for (architecture, kernel), (registers, local) in sorted(used.items()):
        name = f"{kernel} for {architecture}"
        threads = bounds.get((architecture, kernel))
        if threads is None:
            yield f"{name}: no __launch_bounds__"
            continue
        each = (registers + 7) // 8 * 8  # registers are allocated to warps, in units of 256
        if each * threads > REGISTERS:
            yield f"{name}: {threads} threads of {each} registers do not fit into {REGISTERS}"
        allowed = max((most for part, most in LOCAL.items() if part in kernel), default=0)
        if local > allowed:
            yield f"{name}: {local} bytes of local memory a thread, where {allowed} are known"


def main():
    wrong = list(complaints(*sys.argv[1:3]))
    print("\n".join(wrong) or "all kernels fit")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
