"""Prints how well the launches of kernels that memory limits fill an H100 or H200, and checks the share.

A GPU runs a kernel's blocks in waves of as many as its 132 multiprocessors hold at once, which follows from the registers
and the shared memory of a block. The last wave may be nearly empty: 335 blocks on 264 places take two waves, but use only 63 %
of them. That does not show without a GPU, but the machine code and the sizes of launches contain it.

Usage:  python3 kernel_waves.py libhawser_cuda.so cuobjdump kernel_launches

kernel_launches prints the launches of a training step (kernel_launches.cc). Every launch of a call that moves at least BYTES
must use the share SHARE of its waves, except those listed below, and every listed kernel must be launched with a smaller share.
"""
import json
import re
import subprocess
import sys

from kernel_resources import resources, text_of

PROCESSORS, REGISTERS, SHARED, THREADS, BLOCKS = 132, 65536, 228 << 10, 2048, 32  # a multiprocessor of compute capability 9.0
SHARE = 0.8
BYTES = 64 << 20  # about 20 us of an H100, several times the start of a kernel
# Kernels that use a smaller share, by part of the name.
EXCEPTIONS = {
    "partial_sums_kernel": "adds some hundred partial sums of each column: less than 1 MB",
    "over_elements<Count>": "one index for each row",
    "over_elements<PlaceRow>": "one index for each row",
    "column_sum_kernel": "only where cuBLASLt does not sum the gradient of a bias; each thread loads four rows at once",
    "ends_kernel": "one block: a scan of the counts of all indices",
    "merge_kernel": "one block: exact sums, which are a few hundred bytes",
}


def places(registers, threads, shared):
    """Returns how many blocks the GPU holds at once."""
    warps = -(-threads // 32)
    per_warp = -(-registers // 8) * 8 * 32  # registers are allocated to warps in units of 256, in four parts
    by_registers = REGISTERS // per_warp // 4 * 4 // warps
    by_shared = SHARED // (-(-shared // 128) * 128 + 1024)  # 1 KiB of each block belongs to the system
    return PROCESSORS * min(by_registers, by_shared, THREADS // 32 // warps, BLOCKS)


def plain(name):
    """Returns a demangled name without the parts in which compilers differ."""
    name = re.sub(r"\(anonymous namespace\)|_GLOBAL__N__\w+|<unnamed>", "_", name)
    return re.sub(r"^void |hawser::kernels::(cuda::)?|_::", "", name)


def kernel_names(program):
    """Returns {distance of a function's address from hawser_launch_origin: its plain name}."""
    found = {}
    for line in text_of("nm", "-C", "--defined-only", program).splitlines():
        address, _, name = line.split(" ", 2)
        found.setdefault(int(address, 16), name)
    (origin,) = (address for address, name in found.items() if name == "hawser_launch_origin")
    return {address - origin: plain(name) for address, name in found.items()}


def kernel_registers(plugin, cuobjdump):
    """Returns {plain name of a kernel: registers} for compute capability 9.0, or for another one if the plugin lacks it. Of
    kernels in several files that differ only in their namespace, the one with the most registers counts."""
    found = resources(plugin, cuobjdump)
    architecture = min({arch for arch, _ in found}, key=lambda arch: (not arch.startswith("sm_90"), arch))
    mangled = {kernel: registers for (arch, kernel), (registers, _) in found.items() if arch == architecture}
    names = subprocess.run(["c++filt"], input="\n".join(mangled), check=True, capture_output=True, text=True).stdout
    most = {}
    for name, registers in zip(names.splitlines(), mangled.values()):
        most[plain(name)] = max(registers, most.get(plain(name), 0))
    return most


def short(name):
    return name.split("(")[0][:70]


def main():
    plugin, cuobjdump, program = sys.argv[1:4]
    names, registers = kernel_names(program), kernel_registers(plugin, cuobjdump)
    wrong, used = [], set()
    print(f"{'workload':14} {'operation':20} {'MB':>8} {'blocks':>8} {'at once':>8} {'waves':>8} {'share':>6}  kernel")
    for line in map(json.loads, text_of(program).splitlines()):
        kernel = names[line["kernel"]]
        if kernel not in registers:
            wrong.append(f"{kernel} is launched, but the plugin has no such kernel")
            continue
        at_once = places(registers[kernel], line["threads"], line["shared"])
        waves = line["blocks"] / at_once
        share = waves / -(-line["blocks"] // at_once)
        print(f"{line['workload']:14} {line['operation']:20} {line['bytes'] * 1e-6:8.1f} {line['blocks']:8} {at_once:8} {waves:8.2f} "
              f"{share:6.3f}  {short(kernel)}")
        if share >= SHARE or line["bytes"] < BYTES:
            continue
        exception = next((part for part in EXCEPTIONS if part in kernel), None)
        used.add(exception)
        if exception is None:
            wrong.append(f"{short(kernel)} of {line['workload']}: {line['blocks']} blocks, of which {at_once} run at once, use {share:.3f} of "
                         f"their waves; needs {SHARE}")
    wrong += [f"{part} is listed as an exception, but none of its launches is one" for part in EXCEPTIONS if part not in used]
    print("\n".join(wrong) or f"all others use at least {SHARE} of their waves")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
