from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from jetstream_server.base import time_zone
from jetstream_server.base.time_zone import find_zone, is_at_hand


def test_zones_by_their_names() -> None:
    assert find_zone("UTC") is UTC
    assert find_zone("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    for name in (
        "",
        "Foo/Bar",
        "../etc/passwd",
        "/etc/passwd",
        "Europe",
        "a\0b",
        "x" * 300,
        "here",
    ):
        assert find_zone(name) is None, name


def test_a_zone_is_at_hand_once_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_zone, "_found", {})
    assert is_at_hand("UTC") and is_at_hand("Local")
    for name, is_found in (("Asia/Tokyo", True), ("Foo/Bar", False), ("Europe", False)):
        assert not is_at_hand(name)
        find_zone(name)
        assert is_at_hand(name) is is_found


def test_one_that_is_at_hand_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than eight each was read anew each time, for which nobody was charged."""
    monkeypatch.setattr(time_zone, "_found", {})
    names = [f"Etc/GMT+{hour}" for hour in range(1, 13)]
    zones = [find_zone(name) for name in names]
    monkeypatch.setattr(time_zone, "ZoneInfo", lambda name: pytest.fail(f"{name} is read again"))
    assert all(map(is_at_hand, names))
    assert [find_zone(name) for name in names] == zones


@pytest.mark.parametrize(
    ("said", "hours"),
    [
        ("Asia/Tokyo", 9),
        (":Asia/Tokyo", 9),
        ("{folder}/tokyo", 9),
        (":{folder}/tokyo", 9),
        ("{folder}/nothing", 0),
        ("{folder}/text", 0),
        ("{folder}", 0),
        ("Mars/North", 0),
        ("", 0),
        (None, 5.5),
    ],
)
def test_the_zone_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, hours: float
) -> None:
    time_zone._local.cache_clear()
    (tmp_path / "text").write_text("no zone")
    (tmp_path / "tokyo").write_bytes(_zone_file("Asia/Tokyo"))
    (tmp_path / "localtime").write_bytes(_zone_file("Asia/Kolkata"))
    monkeypatch.setattr(time_zone, "_MACHINE", tmp_path / "localtime")
    monkeypatch.delenv("TZ", raising=False)
    if said is not None:
        monkeypatch.setenv("TZ", said.format(folder=tmp_path))
    offset = datetime(2026, 3, 4, tzinfo=find_zone("Local")).utcoffset()
    time_zone._local.cache_clear()
    assert offset is not None and offset.total_seconds() == hours * 3600


def test_a_machine_without_a_zone_has_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time_zone._local.cache_clear()
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(time_zone, "_MACHINE", tmp_path / "localtime")
    found = find_zone("Local")
    time_zone._local.cache_clear()
    assert found is UTC


def _zone_file(name: str) -> bytes:
    return files("tzdata").joinpath("zoneinfo", name).read_bytes()
