"""`jetstream-spark doctor`, beside a server; with workers in tests/spark/test_command.py."""

from __future__ import annotations

import json
import os
import signal
import venv
from pathlib import Path

import pytest

from jetstream_spark.embedded import JetStreamServer


@pytest.fixture
def examine(command, genuine):
    """Examine a job; what it ends with, and the findings by status."""

    def examine(*words: str, servers: str = genuine.url):
        result = command("doctor", *words, "-o", f"servers={servers}", "--json")
        said = json.loads(result.output)
        assert said["ok"] == (result.exit_code == 0)
        for one in said["findings"]:
            assert one["remedy"] or one["status"] == "ok"
        return result.exit_code, {
            status: [
                f"{one['check']}: {one['what']}"
                for one in said["findings"]
                if one["status"] == status
            ]
            for status in ("ok", "warn", "fail")
        }

    return examine


def of_the_job(warnings: list[str]) -> list[str]:
    """Leave out what is said where kernels are pure or no environment is active, as here."""
    return [one for one in warnings if not one.startswith(("kernels:", "format:"))]


def test_the_machine_and_the_servers(examine):
    code, found = examine()
    checks = [one.split(":")[0] for one in found["ok"] + found["warn"]]
    assert code == 0
    assert {"java", "python", "pyspark", "connector", "kernels"} <= set(checks)
    assert any(one.startswith("server 127.0.0.1") for one in checks)


@pytest.mark.parametrize("side", ["read", "readStream", "write", "writeStream"])
def test_a_job_that_can_run(examine, stream, side):
    code, found = examine(side, "-o", f"stream={stream.name}")
    assert (code, found["fail"]) == (0, [])
    assert any(
        one.startswith(f"{side}: the job can be run, on {stream.name}") for one in found["ok"]
    )
    assert any(one.startswith("permissions: ") for one in found["ok"])
    assert any(one.startswith("clock: ") for one in found["ok"])


def test_a_job_that_cannot(examine, stream):
    code, found = examine("read", "-o", "stream=NONE")
    assert code == 1
    assert any("[STREAM_NOT_FOUND]" in one for one in found["fail"])
    code, found = examine("read", "-o", f"stream={stream.name}", "-o", "fetchBatch=0", "-o", "x=1")
    assert (code, len(found["fail"])) == (1, 2)
    code, found = examine("write", "-o", f"stream={stream.name}", "-o", "subject=elsewhere")
    assert any("is not collected by stream" in one for one in found["fail"])


@pytest.mark.parametrize(
    ("may_ask", "status"),
    [("", "warn"), (', "$SYS.REQ.USER.INFO"', "fail")],
    ids=["unknown", "none"],
)
def test_what_the_user_may_not_do_is_not_said_to_be_well(
    examine, start_genuine, make_stream, tmp_path, may_ask, status
):
    config = tmp_path / "users.conf"
    config.write_text(f"""
        no_auth_user: all
        authorization {{ users: [
            {{user: all, password: a}},
            {{user: reader, password: b, permissions: {{
                subscribe: "_INBOX.>", publish: ["$JS.API.STREAM.INFO.*"{may_ask}]}}}}
        ] }}""")
    url = start_genuine("-c", str(config)).url
    user = ("-o", "user=reader", "-o", "password=b", "-o", f"stream={make_stream(url).name}")
    code, found = examine("write", *user, servers=url)
    assert code == (status == "fail")
    assert any(one.startswith("permissions: ") for one in found[status])
    assert not any("can be run" in one for one in found["ok"])


@pytest.mark.parametrize("server", ["genuine", "bundled"])
def test_whoever_may_not_look_at_messages_is_told_what_is_missed(
    examine, start_genuine, make_stream, tmp_path, server
):
    may = ["$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.>", "$SYS.REQ.USER.INFO"]
    config = tmp_path / "users.conf"

    def write(*more: str) -> None:
        config.write_text(f"""
            no_auth_user: all
            authorization {{ users: [
                {{user: all, password: a}},
                {{user: reader, password: b, permissions: {{
                    subscribe: "_INBOX.>", publish: {json.dumps([*may, *more])}}}}}
            ] }}""")

    write()
    bundled = None
    if server == "genuine":
        started = start_genuine("-c", str(config))
        url, pid = started.url, started.process.pid
    else:
        bundled = JetStreamServer(arguments=("-c", str(config))).start()
        url, pid = bundled.url, bundled.pid
    try:
        stream = make_stream(url)
        job = ("-o", "user=reader", "-o", "password=b", "-o", f"stream={stream.name}")
        code, found = examine("readStream", *job, servers=url)
        [missed] = of_the_job(found["warn"])
        assert (code, found["fail"]) == (0, [])
        assert f"may not publish $JS.API.STREAM.MSG.GET.{stream.name} (whether the" in missed
        assert "older copy" in missed
        # A batch needs no such right, and a user who has it is well.
        code, found = examine("read", *job, servers=url)
        assert (code, of_the_job(found["warn"])) == (0, [])
        write(f"$JS.API.STREAM.MSG.GET.{stream.name}")
        os.kill(pid, signal.SIGHUP)
        for _ in range(100):
            code, found = examine("readStream", *job, servers=url)
            if not of_the_job(found["warn"]):
                break
        assert (code, of_the_job(found["warn"])) == (0, [])
        assert any("the job can be run" in one for one in found["ok"])
    finally:
        if bundled is not None:
            bundled.stop()


def test_a_server_that_is_not_there(examine):
    code, found = examine("read", "-o", "stream=A", servers="127.0.0.1:1")
    assert code == 1
    [only] = found["fail"]
    assert "[CONNECTION_FAILED]" in only


def test_options_of_a_connection_that_have_mistakes(examine):
    code, found = examine("read", "-o", "stream=A", "-o", "user=a", servers="http://a")
    assert (code, len(found["fail"])) == (1, 2)


def test_java_is_looked_for(command, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    result = command("doctor", "--json")
    [java] = [one for one in json.loads(result.output)["findings"] if one["check"] == "java"]
    assert (java["status"], result.exit_code) == ("fail", 1)
    program = Path(tmp_path, "bin", "java")
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    program.chmod(0o755)
    [java, *_] = json.loads(command("doctor", "--json").output)["findings"]
    assert (java["check"], java["status"], java["what"]) == ("java", "ok", "21.0.1")


@pytest.mark.parametrize("variable", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_the_python_that_looks_for_formats_is_asked(command, monkeypatch, tmp_path, variable):
    def finding() -> tuple[str, str, bool]:
        result = command("doctor", "--json")
        assert result.exit_code == 0
        [found] = [one for one in json.loads(result.output)["findings"] if one["check"] == "format"]
        return found["status"], found["what"], "PYSPARK_PYTHON" in found["remedy"]

    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    # As where an environment was made and is not active: it is on no path of what Spark starts.
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, str(bare / "bin" / "python"))
    status, what, has_remedy = finding()
    assert (status, has_remedy) == ("warn", True)
    assert what.endswith("which has no pyspark, jetstream_spark")
    # Both can be imported, but not from a folder: an editable install.
    [packages] = bare.glob("lib/python*/site-packages")
    for name in ("pyspark", "jetstream_spark"):
        (packages / f"{name}.py").write_text("")
    assert finding()[1].endswith("which has no pyspark_jetstream that it would find")
    (packages / "pyspark_jetstream").mkdir()
    (packages / "pyspark_jetstream" / "__init__.py").write_text("")
    status, what, _ = finding()
    assert (status, str(bare / "bin" / "python") in what) == ("ok", True)
    for program, said in (("/nowhere/python", "No such file"), ("/bin/false", "ended with 1")):
        monkeypatch.setenv(variable, program)
        status, what, has_remedy = finding()
        assert (status, has_remedy, said in what) == ("warn", True, True)
    # Without either it is what is on the path.
    monkeypatch.delenv(variable)
    monkeypatch.setenv("PATH", f"{bare / 'bin'}:{os.environ['PATH']}")
    assert str(bare / "bin" / "python3") in finding()[1]


def test_people_see_marks_and_remedies(command):
    result = command("doctor", "-o", "servers=127.0.0.1:1")
    assert "fail" in result.output and "Check the addresses" in result.output
    assert result.output.splitlines()[-1].endswith("1 failed")
