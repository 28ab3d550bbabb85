"""Solves and installs conda packages from only a local channel: conda_install.py CHANNEL PLATFORM PREFIX PACKAGE..."""
import asyncio
import os
import sys

import rattler


async def main(channel, platform, prefix, *packages):
    records = await rattler.solve([rattler.Channel(f"file://{channel}")], list(packages), platforms=[platform, "noarch"],
                                  virtual_packages=rattler.VirtualPackage.detect())
    print(*(f"{r.name.normalized}={r.version}" for r in records))
    await rattler.install(records, target_prefix=prefix, cache_dir=f"{prefix}.cache",
                          platform=rattler.Platform(platform))


asyncio.run(main(*sys.argv[1:]))
# Everything is installed. Threads of rattler outlive the interpreter, and 1 of 75 normal exits crashed, so this script
# exits without tearing down.
sys.stdout.flush()
os._exit(0)
