"""The list of commands, and the shell's completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jetstream_spark.command import main

ROOT = Path(__file__).parents[3]


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    variables = {**os.environ, **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, cwd=ROOT)


def test_every_command_can_be_asked_for_help(command):
    listed = command("--help").output
    for name in main._COMMANDS:
        assert f"  {name} " in listed
        assert command(name, "--help").exit_code == 0
    assert command("nonsense").exit_code == 2


def test_the_shell_completes_without_loading_what_commands_need():
    program = (
        "import sys; from jetstream_spark.command.__main__ import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "print(sorted({'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    )
    words = {"COMP_WORDS": "jetstream-spark off", "COMP_CWORD": "1"}
    done = run(program, _JETSTREAM_SPARK_COMPLETE="bash_complete", **words)
    assert (done.stdout, done.stderr) == ("plain,offsets\n", "[]\n")


def test_without_its_libraries_it_says_what_to_install():
    program = (
        "import sys; sys.modules['click'] = None\n"
        "from jetstream_spark.command.__main__ import run; run()"
    )
    done = run(program)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("pip install 'jetstream-spark[cli]'")
    assert done.stderr.count("\n") == 1
