"""What was measured as a table."""

from __future__ import annotations

from benchmarks.markdown import markdown


def test_rows() -> None:
    ratio = {"middle": 2.0, "lowest": 1.5, "highest": 2.25, "rounds": 3}
    text = markdown(
        {
            "machine": {
                "date": "2026-01-02T03:04:05+00:00",
                "cpu": "2 x A",
                "memory": "4 GiB",
                "python": "3.11",
                "genuine": "nats-server: v2",
                "command": "python -m benchmarks",
            },
            "rows": [
                {
                    "case": "a",
                    "metric": "rate",
                    "unit": "msg/s",
                    "medians": {"ours": 1234.5, "genuine": 600.0, "null": 9.0},
                    "ratios": {"ours / genuine": ratio},
                },
                {
                    "case": "b",
                    "metric": "p50",
                    "unit": "us",
                    "medians": {"ours": 12.345, "ours lazy": 1.5},
                    "ratios": {},
                },
            ],
        }
    )
    assert text.splitlines()[:3] == [
        "2026-01-02, 2 x A, 4 GiB, Python 3.11, genuine v2",
        "",
        "    python -m benchmarks",
    ]
    assert text.splitlines()[-2:] == [
        "| a | msg/s | 1,234 |  | 600 | 2.00 [1.50 .. 2.25] |  |",
        "| b, p50 | us | 12.3 | 1.5 |  |  |  |",
    ]
