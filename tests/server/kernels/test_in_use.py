"""Which twins are in use, as `-v` and the log say it."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest
from jetstream_server import kernels
from jetstream_server.kernels import acks, frames, in_use


def test_every_kernel_is_known():
    found = {
        name
        for _, name, _ in pkgutil.iter_modules(kernels.__path__)
        if hasattr(importlib.import_module(f"jetstream_server.kernels.{name}"), "TWIN")
    }
    assert {module.__name__.rpartition(".")[2] for module in in_use.KERNELS} == found
    assert len(found) == len(list(Path(kernels.__path__[0]).glob("*/pure.py")))


@pytest.mark.parametrize(
    ("twins", "kinds", "pure"),
    [
        (("compiled", "compiled"), "compiled", []),
        (("pure", "compiled"), "acks pure, frames compiled", ["acks"]),
        (("pure", "pure"), "pure", ["acks", "frames"]),
    ],
)
def test_what_is_said(monkeypatch, twins, kinds, pure):
    chosen = (acks, frames)
    monkeypatch.setattr(in_use, "KERNELS", chosen)
    for module, twin in zip(chosen, twins, strict=True):
        monkeypatch.setattr(module, "TWIN", twin)
    assert in_use.kinds() == kinds
    assert in_use.pure() == pure
