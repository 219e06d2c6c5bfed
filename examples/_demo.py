"""What the examples share: checks with one clear line each, a server, a session, progress bars.

Only the standard library is imported before the checks have passed, so that a machine that lacks
something gets a sentence and not a stack trace.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JAVA_MIN = 17
WORK_FOLDER = Path(__file__).parent.parent / ".demo"
# Spark's own log goes to a file: on the terminal it would tear the progress bars apart.
LOG_SETTINGS = """
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""


class DemoError(Exception):
    """The example cannot go on; the text is one line for the user."""


def stop_with(line: str) -> NoReturn:
    """End the program with one line."""
    sys.stderr.write(f"{Path(sys.argv[0]).stem}: {' '.join(line.split())}\n")
    sys.exit(1)


def require(*packages: str) -> None:
    """Stop unless Python, Java and these packages are there."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the example may be run before any install
        stop_with(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}.")
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        stop_with(
            f"missing Python package: {', '.join(missing)}; run `make demo`, or "
            f"{sys.executable} -m pip install ./server '.[demo]' in the project's folder."
        )
    if problem := java_problem():
        stop_with(problem)


def java_problem() -> str:
    """Say what is wrong with Java here, nothing if it will do."""
    home = os.environ.get("JAVA_HOME", "")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    wish = f"Spark needs Java {JAVA_MIN} or newer (e.g. apt-get install openjdk-17-jre-headless)"
    if java is None:
        return f"{wish}; there is no `java` on the PATH and JAVA_HOME is not set."
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        return f"{wish}; the one from {where} cannot be run: {error}."
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if version is None or int(version[1]) < JAVA_MIN:
        found = f"version {version[1]}" if version else "no version at all"
        return f"{wish}; {java} says {found}. Set JAVA_HOME to a newer one."
    return ""


@contextlib.contextmanager
def jetstream() -> Iterator[str]:
    """Yield the address of a server: JETSTREAM_URL, or the bundled one with a file store.

    Raises:
        DemoError: it cannot be reached, or not be started.
    """
    from jetstream_spark.embedded import JetStreamServer
    from jetstream_spark.errors import ConnectorError, OptionsError, ServerNotStartedError

    url = os.environ.get("JETSTREAM_URL", "")
    is_given = bool(url)
    with contextlib.ExitStack() as stack:
        if not url:
            port = os.environ.get("JETSTREAM_PORT", "-1")
            server = JetStreamServer(WORK_FOLDER / "store", int(port))
            try:
                url = stack.enter_context(server).url
            except ServerNotStartedError as error:
                if "address already in use" in str(error).lower():
                    raise DemoError(
                        f"port {port} is in use; set JETSTREAM_PORT to another one, or leave it "
                        "out for any free port."
                    ) from None
                raise DemoError(f"the bundled server did not start: {error.what}") from None
        try:
            connect(url).request("INFO")
        except OptionsError as error:
            raise DemoError(f"JETSTREAM_URL={url} is not usable: {error.problems[0]}") from None
        except ConnectorError as error:
            raise DemoError(f"no JetStream at {url}: {error.what}") from None
        print(f"JetStream at {url}{'' if is_given else ', the bundled server'}", flush=True)
        yield url


def connect(url: str) -> Any:
    """Return the means to ask a server for something other than messages."""
    from jetstream_spark.client.blocking import Blocking, this_host
    from jetstream_spark.client.control import Control
    from jetstream_spark.options.format_options import SinkOptions

    options = SinkOptions.parse({"servers": url, "outageTimeout": "5s"})
    return Blocking(Control(this_host(), options.connection))


def fresh_stream(url: str, name: str, *subjects: str, **config: Any) -> None:
    """Make a stream, without what an earlier run left in it."""
    from jetstream_spark.errors import RequestRefusedError

    control = connect(url)
    with contextlib.suppress(RequestRefusedError):
        control.request(f"STREAM.DELETE.{name}")
    body = {"name": name, "subjects": list(subjects), **config}
    control.request(f"STREAM.CREATE.{name}", body)


def fresh_bucket(url: str, name: str) -> None:
    """Make a key-value bucket, without what an earlier run left in it."""
    settings = {"max_msgs_per_subject": 5, "allow_rollup_hdrs": True, "allow_direct": True}
    fresh_stream(url, f"KV_{name}", f"$KV.{name}.>", **settings)


def fresh_object_store(url: str, name: str) -> None:
    """Make an object store, without what an earlier run left in it."""
    subjects = f"$O.{name}.C.>", f"$O.{name}.M.>"
    fresh_stream(url, f"OBJ_{name}", *subjects, allow_rollup_hdrs=True, allow_direct=True)


def put(url: str, bucket: str, key: str, value: str) -> None:
    """Put a value into a bucket."""
    connect(url).request_message(f"$KV.{bucket}.{key}", value.encode())


def delete_key(url: str, bucket: str, key: str) -> None:
    """Delete a key of a bucket."""
    mark = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
    connect(url).request_message(f"$KV.{bucket}.{key}", b"", mark)


def message_count(url: str, stream: str) -> int:
    """Count the messages of a stream."""
    return connect(url).stream_state(stream).messages


@contextlib.contextmanager
def spark_session(name: str) -> Iterator[SparkSession]:
    """Start Spark on all cores of this machine."""
    import warnings

    WORK_FOLDER.mkdir(exist_ok=True)
    settings = WORK_FOLDER / "log4j2.properties"
    settings.write_text(LOG_SETTINGS.format(log=WORK_FOLDER / "spark.log"))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    from pyspark.sql import SparkSession

    cores = max(2, os.cpu_count() or 2)
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={settings.as_uri()}",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.warehouse.dir": str(WORK_FOLDER / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    print(f"Spark on {cores} cores is starting; its log is {WORK_FOLDER / 'spark.log'}", flush=True)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@dataclass
class Stage:
    """One measured step of an example."""

    name: str
    rows: int
    seconds: float


class Stages:
    """Runs the steps of an example, each with a progress bar, and remembers how fast they were."""

    def __init__(self) -> None:
        self.done: list[Stage] = []

    @contextlib.contextmanager
    def measure(
        self, name: str, rows: int, progress: Callable[[], int] = lambda: 0
    ) -> Iterator[None]:
        """Measure the block, while a bar shows how many of `rows` rows `progress` counts."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

        columns = ("{task.description:<28}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        started = time.perf_counter()
        is_done = threading.Event()
        with Progress(*columns) as bars:
            bar = bars.add_task(name, total=rows)

            def watch() -> None:
                while not is_done.wait(0.25):
                    with contextlib.suppress(Exception):  # a bar is not worth a failure
                        bars.update(bar, completed=min(rows, progress()))

            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            try:
                yield
            finally:
                is_done.set()
                watcher.join()
            bars.update(bar, completed=rows)
        self.done.append(Stage(name, rows, time.perf_counter() - started))


def run(main: Callable[[], None]) -> None:
    """Run an example; what the user can mend is said in one line."""
    from pyspark.errors import PySparkException

    from jetstream_spark.errors import ConnectorError

    try:
        main()
    except (DemoError, ConnectorError) as error:
        stop_with(str(error))
    except PySparkException as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        named = [line for line in lines if re.match(r"[\w.]*Error: |\[[A-Z_]+\]", line)]
        stop_with(f"{(named or lines)[-1]} (more in {WORK_FOLDER / 'spark.log'})")
    except KeyboardInterrupt:
        stop_with("stopped.")
