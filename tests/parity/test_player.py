"""The player can take the genuine server from an image."""

from __future__ import annotations

import pytest

# Stands for the Docker client: `run` becomes the program, `kill` its signal.
CLIENT = """#!/bin/sh
if [ "$1" = run ]; then
  shift 4
  echo "$@" > "{log}"
  echo $$ > "{log}.pid"
  shift 5
  exec "{server}" "$@"
fi
echo "$@" >> "{log}"
kill -s "$(echo "$3" | sed s/SIG//)" "$(cat "{log}.pid")"
"""


@pytest.mark.genuine
def test_an_image_is_run_and_stopped_by_name(player, genuine_binary, tmp_path, monkeypatch):
    client, log = tmp_path / "docker", tmp_path / "said"
    client.write_text(CLIENT.format(log=log, server=genuine_binary))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    process = player.ServerProcess(player.image_command("nats:2.15"))
    try:
        process.start()
        player.Wire(process.port).close()
        name = process.folder.name
        assert f"--name {name} --volume" in log.read_text()
        assert " nats:2.15 -a 127.0.0.1" in log.read_text()
        process.stop()
        assert f"kill --signal SIGTERM {name}" in log.read_text()
    finally:
        process.end()
