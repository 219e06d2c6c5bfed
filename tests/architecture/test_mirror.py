"""Every source file has its test file at the same place, and the reverse."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = {
    ROOT / "server/jetstream_server": ROOT / "tests/server",
    ROOT / "server/jetstream_console": ROOT / "tests/console",
    ROOT / "jetstream_spark": ROOT / "tests/connector",
}

# Files whose behaviour shows only in something larger, and the tests that show it.
TESTED_ELSEWHERE = {
    "jetstream_spark/command/__main__.py": "tests/connector/command/test_main.py",
    "jetstream_spark/command/bench_rows.py": "tests/spark/test_command.py",
    "server/jetstream_console/__main__.py": "tests/console/test_cli.py",
    "server/jetstream_console/console.py": "tests/console/conftest.py",
    "server/jetstream_console/asking/errors.py": "tests/console/asking/test_api.py",
    "server/jetstream_console/pages/charts.py": "tests/console/pages/test_overview.py",
    "server/jetstream_console/pages/confirming.py": "tests/console/pages/test_consumer.py",
    "server/jetstream_console/pages/columns.py": "tests/console/pages/test_streams.py",
    "server/jetstream_console/pages/frame.py": "tests/console/pages/test_stream.py",
    "server/jetstream_console/pages/full_list.py": "tests/console/pages/test_streams.py",
    "server/jetstream_console/pages/payloads.py": "tests/console/pages/test_messages.py",
    "server/jetstream_console/pages/registration.py": "tests/console/conftest.py",
    "server/jetstream_server/__main__.py": "tests/server/test_cli.py",
    "server/jetstream_server/jetstream/consumers/consumer_context.py": (
        "tests/server/jetstream/consumers/test_consumer.py"
    ),
    "server/jetstream_server/jetstream/ending.py": "tests/server/jetstream/test_stream.py",
    "server/jetstream_server/jetstream/consumers/consumer_info.py": (
        "tests/server/jetstream/consumers/test_consumer.py"
    ),
    "server/jetstream_server/jetstream/streams/batches/batch_storing.py": (
        "tests/server/jetstream/streams/batches/test_atomic_batch.py"
    ),
    "server/jetstream_server/jetstream/streams/storing/run_storing.py": (
        "tests/server/jetstream/streams/test_dedupe.py"
    ),
    "server/jetstream_server/jetstream/streams/storing/single_storing.py": (
        "tests/server/jetstream/streams/storing/test_admission.py"
    ),
    "server/jetstream_server/jetstream/streams/publishing.py": (
        "tests/server/jetstream/test_stream.py"
    ),
    "server/jetstream_server/jetstream/streams/storing/schedule_firing.py": (
        "tests/server/jetstream/streams/schedules/test_schedule.py"
    ),
}

# Tests of what no single source file does.
WHOLE = {
    "test_bounded_work",
    "test_broken_uploads",
    "test_browser",
    "test_calls_per_message",
    "test_circles",
    "test_contained_clients",
    "test_contained_places",
    "test_contained_server",
    "test_copy_servers",
    "test_crash_between_slices",
    "test_damage",
    "test_encryption",
    "test_failures",
    "test_followed",
    "test_full_disk",
    "test_herd",
    "test_import_diet",
    "test_odd_names",
    "test_pictures",
    "test_postponed_requests",
    "test_running_queries",
    "test_turns_of_many",
    "test_two_tabs",
}


def test_every_source_file_has_a_test_file():
    missing = []
    for sources, tests in TREES.items():
        for path in sorted(sources.rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if path.name == "__init__.py" or not _has_behaviour(path):
                continue
            if name in TESTED_ELSEWHERE:
                assert (ROOT / TESTED_ELSEWHERE[name]).exists()
                continue
            subject = _subject(path.relative_to(sources))
            twin = tests / subject.with_name(f"test_{subject.name}.py")
            if not twin.exists():
                missing.append(f"{name} has no {twin.relative_to(ROOT)}")
    assert not missing, "\n".join(missing)


def test_every_test_file_has_a_source_file():
    orphans = []
    for sources, tests in TREES.items():
        subjects = {_subject(path.relative_to(sources)) for path in sources.rglob("*.py*")}
        for path in sorted(tests.rglob("test_*.py")):
            subject = path.parent.relative_to(tests) / path.stem.removeprefix("test_")
            if subject not in subjects and path.stem not in WHOLE:
                orphans.append(str(path.relative_to(ROOT)))
    assert not orphans, "\n".join(orphans)


def _subject(path: Path) -> Path:
    """Return what a file is about: the twins of a kernel, which is a package, share a test."""
    is_of_kernel = path.parent.parent.name == "kernels"
    return path.parent if is_of_kernel else path.with_suffix("")


def _has_behaviour(path: Path) -> bool:
    """Ports and tables of constants have nothing to run."""
    text = path.read_text()
    return "def " in text and path.stem != "ports"
