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


# The kernels that a target is about; others are in pure Python then, as what they count costs time.
# Targets that are not here are about all of them.
_KERNELS_OF = {
    "kernel-frames": ("frames",),
    "kernel-subjects": ("subjects",),
    "kernel-acks": ("acks",),
    "kernel-gets": ("single_gets",),
    "kernel-ids": ("message_ids", "frames", "records", "seen_ids"),
    "kernel-columns": ("columns", "filters"),
    "kernel-filters": ("filters",),
}


class CheckedKernels(MetaPathFinder):
    """Finds compiled twins in a folder of their own, and none beside their sources.

    Args:
        folder: where they are.
        wanted: those that there are to be; empty for all.
    """

    def __init__(self, folder: Path, wanted: Sequence[str]) -> None:
        self._folder = folder
        self._wanted = wanted

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not (fullname.startswith(KERNELS) and fullname.endswith(".fast")):
            return None
        kernel = fullname.removeprefix(KERNELS).removesuffix(".fast")
        if self._wanted and kernel not in self._wanted:
            raise ImportError(f"the target is not about {kernel}")
        return spec_from_file_location(fullname, self._folder / f"{kernel}.so")


_name = os.environ["FUZZ_TARGET"]
_wanted = _KERNELS_OF.get(_name, ())
sys.meta_path.insert(0, CheckedKernels(Path(os.environ["FUZZ_KERNELS"]), _wanted))

from jetstream_server.kernels import in_use  # noqa: E402 - after the finder

from tests.fuzz.parsers import kernels, targets  # noqa: E402

assert not set(_wanted or in_use.pure()) & set(in_use.pure()), f"pure: {in_use.pure()}"
targets.trust_all()
kernels.compare_every(COMPARED_EVERY)
run = (kernels.TARGETS | targets.TARGETS)[_name].run
