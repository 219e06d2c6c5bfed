"""The optional compiled kernels; everything else is in pyproject.toml.

Each `kernels/<name>_fast.pyx` becomes an extension. Without a C compiler the installation goes on
with the pure Python kernels, which do the same, slower; `JETSTREAM_COMPILED=1` makes it fail then.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNEL_FOLDERS = {
    "jetstream_server.kernels": "server/jetstream_server/kernels",
    "jetstream_spark.kernels": "jetstream_spark/kernels",
}


class OptionalBuildExt(build_ext):
    """Builds all extensions, or warns once and builds none."""

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except Exception as reason:
            if os.environ.get("JETSTREAM_COMPILED") == "1":
                raise
            self.extensions = []
            self.warn(f"compiled kernels not built, the pure Python ones will be used: {reason}")


def kernels() -> list[Extension]:
    """Return an extension for every compiled kernel in the tree."""
    flags = [] if sys.platform == "win32" else ["-O3"]
    return [
        Extension(
            f"{package}.{source.stem}",
            [source.as_posix()],
            depends=[included.as_posix() for included in Path(folder).glob("*.pxd")],
            extra_compile_args=flags,
        )
        for package, folder in KERNEL_FOLDERS.items()
        for source in sorted(Path(folder).glob("*_fast.pyx"))
    ]


setup(ext_modules=kernels(), cmdclass={"build_ext": OptionalBuildExt})
