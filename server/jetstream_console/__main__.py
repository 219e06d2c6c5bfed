"""`jetstream-console`, and `python -m jetstream_console`."""

from __future__ import annotations

import sys

_OF_THE_EXTRA = ("nicegui", "nats", "httpx", "starlette", "uvicorn")


def run() -> None:
    """Run the console, or say what it lacks."""
    try:
        from jetstream_console.cli import main
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_EXTRA:
            raise
        sys.exit(
            f"jetstream-console: the Python package '{error.name}' is not installed here; "
            "pip install 'jetstream-spark[console]'"
        )
    main(sys.argv[1:])


if __name__ == "__main__":
    run()
