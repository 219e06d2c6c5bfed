"""The server's optional compiled kernels; everything else is in pyproject.toml.

Without a C compiler the installation goes on with the pure Python kernels, which do the same,
slower; `JETSTREAM_COMPILED=1` makes it fail then. `JETSTREAM_COMPILED=0` compiles nothing, which
gives a wheel for any machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("jetstream_server/kernels")
# Python's own flags ask for debug symbols, which are four fifths of a wheel.
COMPILE = [] if sys.platform == "win32" else ["-O3", "-g0"]
LINK = ["-Wl,-s"] if sys.platform == "linux" else []

WANTED = os.environ.get("JETSTREAM_COMPILED", "")
SOURCES = [] if WANTED == "0" else sorted(FOLDER.glob("*/fast.pyx"))

setup(
    ext_modules=[
        Extension(
            ".".join(source.with_suffix("").parts),
            [source.as_posix()],
            depends=[included.as_posix() for included in FOLDER.glob("*.pxd")],
            extra_compile_args=COMPILE,
            extra_link_args=LINK,
            optional=WANTED != "1",
        )
        for source in SOURCES
    ]
)
