"""What parsers and decoders make of mutated input; `make fuzz-parsers` is the long run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from random import Random

import pytest
from jetstream_server.kernels.record_format import SEQUENCE_MAX
from jetstream_server.store.blocks import tombstone

from tests.attack.acts import mutated
from tests.attack.draws import RAW
from tests.fuzz.parsers import kernels, targets
from tests.fuzz.parsers.compiled.build import _SOURCE, BuildError, build

INPUTS = 150
TARGETS = kernels.TARGETS | targets.TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_give_a_result_or_the_one_error(name):
    random = Random(f"parsers {name}")
    target = TARGETS[name]
    for seed in target.seeds:
        target.run(seed)
    for _ in range(INPUTS):
        target.run(mutated(random, random.choice(target.seeds), RAW))


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_and_noise(name):
    random = Random(f"noise {name}")
    for length in (0, 1, 2, 3, 8, 100, 5000):
        TARGETS[name].run(random.randbytes(length))
        TARGETS[name].run(bytes(length))
        TARGETS[name].run(b"9" * length)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("acks", b"$JS.ACK.S.C.99999999999999999999.1.18446744073709551616.1.0 -NAK"),
        ("users", b'{"nats":{"times_location":"America"}}'),
        ("headers", b"O \xc2\xb2 > > x"),
        ("times", b", * * * * *"),
        ("blocks", tombstone.started(2**64 - 1, 5, 0).encode()),
        ("blocks", tombstone.started(SEQUENCE_MAX - 1, 5, 0).encode()),
    ],
)
def test_what_was_found_once(name, data):
    TARGETS[name].run(data)


def test_the_command_says_how_many_inputs_there_were(tmp_path):
    if importlib.util.find_spec("atheris") is None:
        # Not for every Python: then the tests above are all there is.
        assert "atheris" not in sys.modules
        return
    command = [sys.executable, "-m", "tests.fuzz.parsers", "--target", "acks", "--inputs", "50"]
    done = subprocess.run(
        [*command, "--corpus", str(tmp_path)], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0 and "inputs in all, 0 targets tripped" in done.stdout


def test_the_driver_is_where_it_is_built_from():
    assert b"LLVMFuzzerTestOneInput" in _SOURCE.read_bytes()


def test_who_has_no_clang_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="apt-get install clang"):
        build(tmp_path)
    assert not list(tmp_path.iterdir())
