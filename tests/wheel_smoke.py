"""Run by the Python of an empty environment: a server, some messages, and the connector's kernels.

python wheel_smoke.py compiled|pure
"""

from __future__ import annotations

import contextlib
import io
import json
import platform
import sys
import tempfile

from jetstream_server.kernels import in_use

import jetstream_spark
from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command.main import main
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.options.format_options import SinkOptions

MESSAGES = 300


def command(*words: str) -> dict[str, object]:
    """What `jetstream-spark` says as JSON."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main([*words, "--json"], standalone_mode=False)
    told: dict[str, object] = json.loads(said.getvalue())
    return told


def smoke(expected: str) -> None:
    """Publish, read all into files, and write them back.

    Raises:
        AssertionError: something is not as it should be.
    """
    kernels = {*jetstream_spark.__version_info__["kernels"].values(), in_use.kinds()}
    assert kernels == {expected}, kernels
    assert "site-packages" in jetstream_spark.__file__, jetstream_spark.__file__
    with JetStreamServer(ready_timeout_s=120) as server, tempfile.TemporaryDirectory() as folder:
        options = SinkOptions.parse({"servers": server.url})
        control = Blocking(Control(this_host(), options.connection, "smoke"))
        for name in ("IN", "OUT"):
            body = {"name": name, "subjects": [f"{name.lower()}.>"]}
            control.request(f"STREAM.CREATE.{name}", body)
        for number in range(MESSAGES):
            control.request_message(f"in.{number % 7}", b"%d" % number)
        there, back = f"--from=servers={server.url}", f"--to=servers={server.url}"
        read = command("copy", "stream:IN", f"{folder}/rows", there)
        written = command("copy", f"{folder}/rows", "stream:OUT", back, "--rename", "in=out")
        assert read["rows"] == written["rows"] == MESSAGES, (read, written)
        assert control.stream_state("OUT").messages == MESSAGES
        last = control.request("STREAM.MSG.GET.OUT", {"seq": MESSAGES})["message"]
        assert last["subject"] == f"out.{(MESSAGES - 1) % 7}", last


if __name__ == "__main__":
    smoke(sys.argv[1])
    print(f"Python {platform.python_version()}: {sys.argv[1]} kernels are good")
