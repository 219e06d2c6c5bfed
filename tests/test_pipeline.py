"""The example of a declarative pipeline, run as its file says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import jetstream_spark
from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.options.format_options import SinkOptions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1100)]

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "pipeline"


@pytest.fixture
def spec(tmp_path) -> Path:
    """The example's specification, with a storage of the test's own."""
    text = (EXAMPLE / "spark-pipeline.yml").read_text()
    assert "file:///tmp/jetstream-pipeline" in text
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(text.replace("file:///tmp/jetstream-pipeline", (tmp_path / "kept").as_uri()))
    (tmp_path / "transformations").symlink_to(EXAMPLE / "transformations")
    return spec


def run(spec: Path, url: str) -> None:
    environment = {**os.environ, "JETSTREAM_URL": url, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    # The command's own JVM takes no options of `spark-submit`.
    environment["JDK_JAVA_OPTIONS"] = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if Path(jetstream_spark.__file__).parent == ROOT / "jetstream_spark":
        # Spark finds formats by listing folders, which an editable install is not in.
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "server")))
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run"]
    done = subprocess.run(
        [*command, "--spec", str(spec)],
        cwd=spec.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=520,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


def test_the_pipeline_takes_what_is_new_in_each_run(genuine, spec):
    control = Blocking(Control(this_host(), SinkOptions.parse({"servers": genuine.url}).connection))
    for name, subject in (("ORDERS", "orders.>"), ("LARGE_ORDERS", "large.>")):
        control.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})

    def order(number: int, euros: int) -> None:
        text = b'{"id": %d, "euros": %d}' % (number, euros)
        control.request_message("orders.de", text)

    def run_and_count() -> int:
        run(spec, genuine.url)
        return control.stream_state("LARGE_ORDERS").messages

    for number in range(100):
        order(number, number)
    counts = [run_and_count()]
    # The ledger knows nothing of a batch that was never begun: were the old ones read again, as
    # another batch, they would be written again.
    for number in range(100, 107):
        order(number, 500)
    counts.append(run_and_count())
    for name in ("ORDERS", "LARGE_ORDERS"):
        control.request(f"STREAM.DELETE.{name}")
    assert counts == [19, 26]
