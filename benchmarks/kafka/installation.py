"""What the comparison needs and the project does not: Kafka's jars, and a PySpark of their version.

All of it lies in one folder and is used again. The jars come from Maven Central by way of `mvn`,
PySpark from PyPI.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import ROOT

BROKER_VERSION = "4.3.1"
SPARK_VERSION = "4.2.0"  # the newest one that Maven Central has the Kafka connector for
_BROKER = f"org.apache.kafka:kafka_2.13:{BROKER_VERSION}"
_CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"
# What Spark itself does not bring along.
_CONNECTOR_JARS = ("spark-sql-kafka-*", "spark-token-provider-kafka-*", "kafka-clients-*")
_CONNECTOR_JARS += ("commons-pool2-*",)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>benchmarks</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies><dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
</dependency></dependencies></project>
"""


@dataclass(frozen=True)
class Installation:
    """Where everything is.

    Attributes:
        broker: the class path of the broker.
        connector: the jars that Spark's driver needs besides its own.
        python: an interpreter that has PySpark.
        packages: a folder with the connector and the benchmarks, and nothing else.
    """

    broker: str
    connector: tuple[Path, ...]
    python: Path
    packages: Path


def install(folder: Path) -> Installation:
    """Fetch what is not there yet.

    Raises:
        FileNotFoundError: `mvn` is missing, or the connector was not compiled.
        subprocess.CalledProcessError: something cannot be fetched; its own words are on the screen.
    """
    folder = folder.resolve()
    broker = _jars(folder / f"broker-{BROKER_VERSION}", _BROKER)
    connector = _jars(folder / f"connector-{SPARK_VERSION}", _CONNECTOR)
    return Installation(
        f"{broker}/*",
        tuple(sorted(jar for name in _CONNECTOR_JARS for jar in connector.glob(name))),
        _python(folder / f"pyspark-{SPARK_VERSION}"),
        _packages(folder / "packages"),
    )


def _jars(folder: Path, artifact: str) -> Path:
    jars = folder / "jars"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_POM.format(*artifact.split(":")))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*command, f"-DoutputDirectory={jars}"], cwd=folder, check=True)
        (folder / "complete").touch()
    return jars


def _python(folder: Path) -> Path:
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, f"pyspark=={SPARK_VERSION}", "pyarrow", "numpy"], check=True)
        (folder / "complete").touch()
    return python


def _packages(folder: Path) -> Path:
    """Give PySpark's interpreter this connector, compiled, and nothing of this environment."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in (("benchmarks", ROOT / "benchmarks"), ("jetstream_spark", _connector())):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return folder


def _connector() -> Path:
    for entry in sys.path:
        package = Path(entry or os.curdir).resolve() / "jetstream_spark"
        if any(package.glob("kernels/*/fast*.so")):
            return package
    raise FileNotFoundError("the connector was not compiled: install it, or run `make kernels`")
