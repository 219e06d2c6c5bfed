"""What the process of `driver.c` imports: the target, with kernels that were compiled for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

KERNELS = "jetstream_server.kernels."
# Pure twins take ten times as long as compiled ones without checks, and most of the time here.
COMPARED_EVERY = 50


class CheckedKernels(MetaPathFinder):
    """Finds compiled twins in a folder of their own, before those beside their sources."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not (fullname.startswith(KERNELS) and fullname.endswith(".fast")):
            return None
        kernel = fullname.removeprefix(KERNELS).removesuffix(".fast")
        return spec_from_file_location(fullname, self._folder / f"{kernel}.so")


sys.meta_path.insert(0, CheckedKernels(Path(os.environ["FUZZ_KERNELS"])))

from jetstream_server.kernels import in_use  # noqa: E402 - after the finder

from tests.fuzz.parsers import kernels, targets  # noqa: E402

assert not in_use.pure(), f"kernels in pure Python: {in_use.pure()}"
targets.trust_all()
kernels.compare_every(COMPARED_EVERY)
_name = os.environ["FUZZ_TARGET"]
# What runs in kernels alone is guided by their counters, and quicker without lines.
counts_lines = _name not in kernels.TARGETS
run = (kernels.TARGETS | targets.TARGETS)[_name].run
