"""`jetstream-spark`, and `python -m jetstream_spark.command`."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command line, or say which package is missing."""
    try:
        from jetstream_spark.command.main import main
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(
            f"jetstream-spark: the Python package '{error.name}' is not installed here; "
            "pip install 'jetstream-spark[cli]'"
        )
    main(prog_name="jetstream-spark")


if __name__ == "__main__":
    run()
