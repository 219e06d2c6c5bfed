"""Compiles what the compiled way needs: the kernels, counted and checked by clang, and a driver."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# Two drivers: for targets that are kernels, and for those that are Python, whose steps from line to
# line have that many counters.
DRIVERS = {"driver": 0, "driver-of-lines": 1 << 14}
_SOURCE = Path(__file__).parent / "native" / "driver.c"
_SERVER = Path(__file__).parents[4] / "server"
_KERNELS = _SERVER / "jetstream_server" / "kernels"
# What goes beyond its memory or has no meaning in C ends the process; optimised as little as is
# quick, so that what the source says is what is checked. Records lie at any address, and the
# address of an empty array may be NULL, to which Cython adds nothing.
CHECKS = "address,undefined"
COMPILE = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all")
COMPILE += ("-fno-sanitize=alignment,pointer-overflow,function,vptr",)


class BuildError(Exception):
    """Something that it takes is missing, or a file does not compile."""


def built_in(corpus: Path) -> Path:
    """Return the folder that has the drivers, and a library for each kernel."""
    return corpus / "compiled"


def build(corpus: Path) -> None:
    """Compile what is older than its sources.

    Raises:
        BuildError: says what is missing, and what to do.
    """
    clang = shutil.which("clang")
    if clang is None:
        raise BuildError(
            "the compiled way needs clang with libFuzzer, which is not installed: "
            "`apt-get install clang`; without it leave out --compiled"
        )
    folder = built_in(corpus).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    headers = f"-I{sysconfig.get_path('include')}"
    shared = sorted(_KERNELS.glob("*.pxd"))
    to_c = [sys.executable, "-m", "cython", "-3", "-I", _SERVER]
    to_kernel = [clang, f"-fsanitize=fuzzer-no-link,{CHECKS}", *COMPILE, "-w", "-shared", "-fPIC"]
    for source in sorted(_KERNELS.glob("*/fast.pyx")):
        kernel, code = folder / f"{source.parent.name}.so", folder / f"{source.parent.name}.c"
        commands = [[*to_c, "-o", code, source], [*to_kernel, headers, code, "-o", kernel]]
        _make(kernel, [source, *shared], commands)
    to_driver = [clang, "-O2", "-g", f"-fsanitize=fuzzer,{CHECKS}", headers, _SOURCE, *_python()]
    for name, steps in DRIVERS.items():
        _make(folder / name, [_SOURCE], [[*to_driver, f"-DSTEPS={steps}", "-o", folder / name]])


def _python() -> list[str]:
    """Return what the linker needs for Python."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        raise BuildError(
            f"the compiled way needs Python as a library, which {sys.executable} has not: use "
            "Debian's with python3-dev, or one built with --enable-shared"
        )
    libraries = sysconfig.get_config_var("LIBDIR")
    name = f"-lpython{sysconfig.get_config_var('LDVERSION')}"
    return [f"-L{libraries}", f"-Wl,-rpath,{libraries}", name]


def _make(made: Path, sources: list[Path], commands: list[list[str | Path]]) -> None:
    """Run the commands that make a file, unless it was made by these, of these sources."""
    contents = hashlib.sha256(f"{sys.version} {commands}".encode())
    for source in sources:
        contents.update(source.read_bytes())
    noted = made.with_name(f"{made.name}.sha256")
    if made.exists() and noted.exists() and noted.read_text() == contents.hexdigest():
        return
    for command in commands:
        words = list(map(str, command))
        done = subprocess.run(words, capture_output=True, text=True, cwd=_SERVER)
        if done.returncode:
            raise BuildError(f"{' '.join(words)}\n{(done.stderr or done.stdout)[-2000:]}")
    noted.write_text(contents.hexdigest())
