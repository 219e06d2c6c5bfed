"""Versions, kernels and clocks of driver and workers, judged. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jetstream_spark.command.finding import FAIL, OK, WARN, Finding

JAVA_MIN = 17
PYTHON_MIN = (3, 11)
CLOCKS_WARN_S = 2.0
CLOCKS_FAIL_S = 600.0
_COMPILE = (
    "Install a wheel with compiled kernels, or build one where there is a C compiler: "
    "JETSTREAM_COMPILED=1 pip install --no-binary jetstream-spark jetstream-spark."
)


def of_java(output: str | None) -> Finding:
    """Judge what `java -version` printed; None if there is no java."""
    if output is None:
        return Finding(
            FAIL,
            "java",
            "no java was found in JAVA_HOME or on the PATH",
            f"Install Java {JAVA_MIN} or newer, which Spark runs on, and set JAVA_HOME.",
        )
    match = re.search(r'version "(?:1\.)?([0-9]{1,4})([^"]*)"', output)
    if match is None:
        said = output.strip().splitlines()[:1]
        return Finding(WARN, "java", f"its version is not known: {said}", "Try java -version.")
    version = f"{match[1]}{match[2]}"
    if int(match[1]) < JAVA_MIN:
        remedy = f"Spark 4 needs Java {JAVA_MIN} or newer; set JAVA_HOME to one."
        return Finding(FAIL, "java", version, remedy)
    return Finding(OK, "java", version)


def of_driver(facts: Mapping[str, Any], missing: Sequence[str]) -> list[Finding]:
    """Judge the process that the command runs in.

    Args:
        missing: what this version of PySpark lacks.
    """
    return [
        _python("python", facts),
        Finding(WARN, "pyspark", f"{facts['pyspark']} lacks {', '.join(missing)}",
                "PySpark 4.2 or newer has everything.")
        if missing
        else Finding(OK, "pyspark", str(facts["pyspark"])),
        Finding(OK, "connector", str(facts["connector"])),
        _kernels("kernels", facts),
    ]  # fmt: skip


def _python(check: str, facts: Mapping[str, Any]) -> Finding:
    version = str(facts["python"])
    if tuple(int(one) for one in re.findall(r"[0-9]+", version)[:2]) < PYTHON_MIN:
        return Finding(FAIL, check, version, "Use Python 3.11 or newer (PYSPARK_PYTHON).")
    return Finding(OK, check, f"{version} ({facts['executable']})")


def of_lookup(python: str, said: Sequence[str], error: str) -> Finding:
    """Judge the Python that Spark starts to look for formats.

    Args:
        python: what Spark calls, a name or a path.
        said: where that is, and what it lacks.
        error: why it said nothing.
    """
    remedy = (
        "Activate the environment that has jetstream-spark, or set PYSPARK_PYTHON to its Python; "
        "an editable install does not do. Otherwise Spark says DATA_SOURCE_NOT_FOUND."
    )
    check = "format"
    if not said:
        return Finding(WARN, check, f"Spark starts '{python}', which does not run: {error}", remedy)
    where, *missing = said
    if missing:
        what = f"Spark starts '{python}', here {where}, which has no {', '.join(missing)}"
        return Finding(WARN, check, what, remedy)
    return Finding(OK, check, f"Spark finds it with '{python}' ({where})")


def _kernels(check: str, facts: Mapping[str, Any]) -> Finding:
    slow = sorted(name for name, twin in facts["kernels"].items() if twin != "compiled")
    if slow:
        return Finding(
            WARN, check, f"pure Python, several times slower: {', '.join(slow)}", _COMPILE
        )
    return Finding(OK, check, "compiled")


def of_worker(driver: Mapping[str, Any], worker: Mapping[str, Any]) -> list[Finding]:
    """Judge a worker beside the driver."""
    check = f"worker {worker['host']}"
    if worker["connector"] is None:
        remedy = "Install jetstream-spark where executors run, or ship it (docs/submit.md)."
        return [Finding(FAIL, check, f"has no connector: {worker['error'][1]}", remedy)]
    found = []
    for key, remedy in (
        ("python", "Driver and workers need the same minor version; set PYSPARK_PYTHON."),
        ("pyspark", "Install one version of PySpark everywhere."),
        ("connector", "Install one version of jetstream-spark everywhere."),
    ):
        here, there = str(driver[key]), str(worker[key])
        if key == "python":
            here, there = (one.rpartition(".")[0] for one in (here, there))
        if here != there:
            found.append(
                Finding(FAIL, check, f"{key} {worker[key]}, the driver {driver[key]}", remedy)
            )
    kernels = _kernels(check, worker)
    found += [kernels] if kernels.status != OK else []
    if worker["connected"] is False:
        condition, what, remedy = worker["error"]
        found.append(Finding(FAIL, check, f"[{condition}] {what}", remedy))
    if not found:
        connected = ", reaches the servers" if worker["connected"] else ""
        what = f"python {worker['python']}, connector {worker['connector']}, compiled{connected}"
        found.append(Finding(OK, check, what))
    return found


def of_info(check: str, info: Mapping[str, Any], took_ms: float) -> Finding:
    """Judge what a server said of itself when it let us in."""
    version = info.get("version")
    if not info.get("jetstream"):
        return Finding(
            FAIL,
            check,
            f"version {version} has no JetStream",
            "Start it with -js, or `jetstream {}` in its configuration; a leaf node may need the "
            "option domain.",
        )
    if not info.get("headers"):
        remedy = "Allow headers in the server's configuration (no_header_support)."
        return Finding(FAIL, check, f"version {version} has headers switched off", remedy)
    return Finding(OK, check, f"version {version}, signed in within {took_ms:.0f} ms")


def of_clocks(check: str, apart_s: float, error_s: float) -> Finding:
    """Judge how far two clocks are apart.

    Args:
        apart_s: how much this one is ahead.
        error_s: how much of that may be due to the round trip.
    """
    sure_s = max(0.0, abs(apart_s) - error_s)
    what = f"{abs(apart_s):.3f} s {'ahead of' if apart_s > 0 else 'behind'} the server's"
    remedy = "Synchronise the clocks (NTP) of the servers and of the machines that Spark runs on."
    if sure_s > CLOCKS_FAIL_S:
        return Finding(FAIL, check, what, remedy)
    if sure_s > CLOCKS_WARN_S:
        return Finding(
            WARN, check, f"{what}; times in options and rows mean that much less", remedy
        )
    return Finding(OK, check, f"within {sure_s + error_s:.3f} s of the server's")
