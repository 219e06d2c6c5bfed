"""The page on submitting, command by command, on a standalone cluster whose worker is killed."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import venv
import zipfile
from pathlib import Path

import jetstream_server
import pyspark
import pytest

import jetstream_spark
import pyspark_jetstream

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs/submit.md"
SPARK_HOME = Path(pyspark.__file__).parent
ROWS = 12_000
# As all JVMs of a run of `make test`, or else so.
SHORT_LIVED = os.environ.get("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
LOG_SETTINGS = """
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


class Standalone:
    """A master and two workers of one core each, on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "log4j2.properties").write_text(LOG_SETTINGS)
        self._processes: list[subprocess.Popen[str]] = []
        self._start("master.Master", "--port", "0")
        self.url = self._told(0, r"Starting Spark master at (\S+)")
        for number in (1, 2):
            self._start(
                "worker.Worker", "-c", "1", "-m", "1g", "-d", f"{folder}/{number}", self.url
            )
        for number in (1, 2):
            self._told(number, r"Successfully registered with master (\S+)")
        for process in self._processes:
            threading.Thread(target=process.stdout.read, daemon=True).start()

    def _start(self, role: str, *arguments: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        settings = f"-Dlog4j2.configurationFile=file:{self._folder}/log4j2.properties"
        environment = {**os.environ, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
        environment["SPARK_DAEMON_JAVA_OPTS"] = f"{SHORT_LIVED} {settings}"
        environment.pop("PYTHONPATH", None)  # a machine that knows nothing of the connector
        self._processes.append(
            subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        )

    def _told(self, number: int, pattern: str) -> str:
        for line in self._processes[number].stdout:
            if match := re.search(pattern, line):
                return match[1]
        raise AssertionError("a part of the cluster ended")

    def kill_worker(self) -> None:
        """Kill one worker with its executor, as if its machine had gone."""
        os.killpg(self._processes[-1].pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def standalone(tmp_path_factory):
    cluster = Standalone(tmp_path_factory.mktemp("standalone"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def executor_python(tmp_path_factory) -> Path:
    """An interpreter with all that is installed here except the connector."""
    folder = tmp_path_factory.mktemp("executor")
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    for one in SPARK_HOME.parent.iterdir():
        if "jetstream" not in one.name:
            (packages / one.name).symlink_to(one)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the commands are typed: the application, and what is installed here as a wheel."""
    folder = tmp_path_factory.mktemp("submit")
    [application] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)
    (folder / "copy_orders.py").write_text(application)
    wheel = folder / f"jetstream_spark-{jetstream_spark.__version__}-made.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for package in (jetstream_spark, jetstream_server, pyspark_jetstream):
            root = Path(package.__file__).parent
            for file in [*root.rglob("*.py"), *root.rglob("*.so")]:
                packed.write(file, file.relative_to(root.parent))
    [rename] = [words for words in commands() if words[0] == "cp"]
    subprocess.run(" ".join(rename), shell=True, cwd=folder, check=True)
    return folder


def commands() -> list[list[str]]:
    """The commands of the page, as words."""
    text = "".join(re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.S))
    return [shlex.split(line) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.fixture
def submit(standalone, executor_python, folder, bundled, tmp_path):
    """Start the page's command that has a certain option; nothing but addresses is replaced."""
    started = []

    def start(option: str) -> subprocess.Popen[str]:
        [words] = [words for words in commands() if option in words]
        words = [
            word.replace("spark://host:7077", standalone.url)
            .replace("nats://host:4222", bundled.url)
            .replace("file:///checkpoints", tmp_path.as_uri())
            for word in words[1:]
        ]
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.pyspark.driver.python": sys.executable,
            "spark.pyspark.python": str(executor_python),
            "spark.ui.enabled": "false",
            "spark.executor.extraJavaOptions": SHORT_LIVED,
        }
        added = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        sources = {str(Path(p.__file__).parents[1]) for p in (jetstream_spark, jetstream_server)}
        environment["PYTHONPATH"] = os.pathsep.join(sorted(sources))
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-submit"), *added, *words],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=(folder / "errors.log").open("w"),
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def streams(bundled):
    bundled.create_stream("ORDERS", subjects=["orders.>"])
    bundled.create_stream("COPIES", subjects=["copies.>"])
    yield bundled
    bundled.delete_stream("ORDERS")
    bundled.delete_stream("COPIES")


def copied(server, spark) -> list[int]:
    rows = spark.read.format("jetstream").options(servers=server.url, stream="COPIES").load()
    return sorted(int(row[0]) for row in rows.selectExpr("string(data)").collect())


def said(process: subprocess.Popen[str], folder: Path) -> str:
    told = process.communicate(timeout=400)[0]
    assert process.returncode == 0, (folder / "errors.log").read_text()[-6000:]
    return told


def test_a_wheel_as_an_archive_while_a_worker_is_killed(submit, standalone, streams, folder, spark):
    streams.publish([(f"orders.{i % 7}", b"%d" % i) for i in range(ROWS)])
    process = submit("--archives")
    deadline = time.monotonic() + 400
    while streams.last_sequence("COPIES") < ROWS // 4:
        assert process.poll() is None, (folder / "errors.log").read_text()[-6000:]
        assert time.monotonic() < deadline, "nothing is copied"
        time.sleep(0.05)
    standalone.kill_worker()
    told = said(process, folder)
    assert copied(streams, spark) == list(range(ROWS))
    assert str(jetstream_spark.__version_info__) in told


def test_py_files_with_the_pure_kernels(submit, streams, folder, spark):
    streams.publish([(f"orders.{i % 7}", b"%d" % i) for i in range(100)])
    told = said(submit("--py-files"), folder)
    assert copied(streams, spark) == list(range(100))
    kernels = dict.fromkeys(jetstream_spark.__version_info__["kernels"], "pure")
    assert str(kernels) in told
