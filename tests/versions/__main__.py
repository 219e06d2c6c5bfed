"""Tries each version of PySpark in an environment of its own; `make versions`.

    python -m tests.versions                 all of them
    python -m tests.versions 4.1 4.2         some

The environments stay in `.venv-versions` and are used again. Each gets the wheel of this working
copy, so what is tried is what users install.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-versions"
SMOKE = Path(__file__).with_name("smoke.py")
VERSIONS = ("4.0", "4.1", "4.2", "4.3")
SMOKE_SECONDS_MAX = 600


def build_wheel() -> Path:
    """Build the wheel of this working copy."""
    target = FOLDER / "wheel"
    for old in target.glob("*.whl"):
        old.unlink()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", str(target), str(ROOT)], check=True)
    [wheel] = target.glob("*.whl")
    return wheel


def environment(version: str, wheel: Path) -> Path:
    """Make or update the environment of a version; return its interpreter."""
    folder = FOLDER / version
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"pyspark=={version}.*", str(wheel)], check=True)
    subprocess.run([*install, "--no-deps", "--force-reinstall", str(wheel)], check=True)
    return python


def main(versions: list[str]) -> int:
    """Try the versions; return how many failed."""
    wheel = build_wheel()
    failed = []
    for version in versions:
        python = environment(version, wheel)
        # From another folder, so that the wheel is imported and not the working copy.
        run = subprocess.run([str(python), str(SMOKE)], cwd=FOLDER, timeout=SMOKE_SECONDS_MAX)
        if run.returncode:
            failed.append(version)
    print(f"PySpark {', '.join(versions)}:", f"FAILED: {', '.join(failed)}" if failed else "good")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(VERSIONS)))
