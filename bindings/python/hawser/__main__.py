"""The hawser command: python -m hawser, and the console script of the wheel."""

from __future__ import annotations

import os
import shutil
import sys

from . import log


def main() -> None:
    """Runs `hawser log` here; it needs the user's Python packages. For any other command, replaces this process with the
    package's own program, or with the first one on the path that is no Python script."""
    if sys.argv[1:2] == ["log"]:
        return log.main(sys.argv[2:])
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "hawser")
    if not os.access(program, os.X_OK):
        program = shutil.which("hawser") or ""
        if not program or os.path.realpath(program) == os.path.realpath(sys.argv[0]):
            sys.exit("hawser: this installation has no command; install the wheel, or the package hawser")
    os.execv(program, ["hawser", *sys.argv[1:]])


if __name__ == "__main__":
    main()
