"""`python -m jetstream_server`, and the `jetstream-server` command: what begins before the imports.

The imports take most of the time of a start. An interrupt that comes meanwhile would end in a
traceback; or it would be lost, if a parent ignores interrupts. And the first process of a container
does not hear a signal that it has said nothing about: it would be waited for, and then killed.
"""

import os
import signal
import sys


def _leave(number: int, frame: object) -> None:
    """End at once: nothing was promised to anybody yet, and the store is ready for a crash."""
    os._exit(0)


def main() -> int:
    """Run the command; returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)  # until the event loop follows signals
    from jetstream_server.cli import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
