"""PySpark's wheel, which the index does not have: built once, and unpacked once.

Otherwise `uv` builds it for each Python anew, and keeps all that comes of it: a gigabyte each.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.versions.interpreters import tool

# For what is installed afterwards: a PySpark that is not there yet is an error, not an hour.
NEVER_BUILT = ("--only-binary", "pyspark")


def build(requirement: str, folder: Path) -> Path:
    """Build the wheel of a requirement, such as `pyspark==4.0.*`; pip remembers it.

    Args:
        folder: where it is put, and nothing else is.

    Raises:
        CalledProcessError: there is none, or it cannot be built.
    """
    for other in folder.glob("*.whl"):
        other.unlink()
    command = ("-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
    subprocess.run([sys.executable, *command, "--wheel-dir", folder, requirement], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def install(wheel: Path, environment: Path, cache: Path) -> None:
    """Install it without what it needs.

    Args:
        cache: a folder of its own, to be removed by whoever gave it. In the one of the user it
            would stay for ever, as the next wheel is another file.
    """
    command = ("pip", "install", "--quiet", "--no-deps", "--cache-dir", cache)
    subprocess.run([tool("uv"), *command, "--python", environment, wheel], check=True)
