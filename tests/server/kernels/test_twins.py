"""One of two twins, all of it or none."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from jetstream_server.kernels.twins import adopt

ALL = ["TWIN", "f", "g", "WIDTH"]


@pytest.fixture
def twins(monkeypatch):
    """Make the twins of a kernel `k`; what each has is given by name."""

    def make(**contents: dict[str, object]) -> None:
        for twin, content in contents.items():
            module = ModuleType(f"k.{twin}")
            vars(module).update(content)
            monkeypatch.setitem(sys.modules, module.__name__, module)

    monkeypatch.delenv("JETSTREAM_PURE", raising=False)
    return make


def test_the_compiled_twin_is_taken_and_what_is_there_stays(twins):
    twins(fast={"f": 1, "g": 2, "WIDTH": 9})
    names = {"__all__": ALL, "WIDTH": 3}
    assert adopt("k", names) == "compiled"
    assert names == {"__all__": ALL, "f": 1, "g": 2, "WIDTH": 3}
    assert "k.pure" not in sys.modules


def test_the_pure_twin_is_taken_where_it_is_asked_for(twins, monkeypatch):
    twins(fast={"f": 1, "g": 2}, pure={"f": 5, "g": 6})
    monkeypatch.setenv("JETSTREAM_PURE", "1")
    names = {"__all__": ALL, "WIDTH": 3}
    assert adopt("k", names) == "pure"
    assert (names["f"], names["g"]) == (5, 6)


def test_a_big_endian_processor_has_the_pure_twin(twins, monkeypatch):
    twins(fast={"f": 1, "g": 2}, pure={"f": 5, "g": 6})
    monkeypatch.setattr(sys, "byteorder", "big")
    names = {"__all__": ALL, "WIDTH": 3}
    assert adopt("k", names) == "pure"
    assert (names["f"], names["g"]) == (5, 6)


@pytest.mark.parametrize("compiled", [{}, {"fast": {"f": 1}}])
def test_the_pure_twin_stands_in_for_one_that_is_missing_or_of_another_build(twins, compiled):
    twins(pure={"f": 5, "g": 6}, **compiled)
    names = {"__all__": ALL, "WIDTH": 3}
    assert adopt("k", names) == "pure"
    assert (names["f"], names["g"]) == (5, 6)


def test_a_pure_twin_that_lacks_a_name_is_a_mistake(twins):
    twins(pure={"f": 5})
    with pytest.raises(AttributeError, match="g"):
        adopt("k", {"__all__": ALL, "WIDTH": 3})
