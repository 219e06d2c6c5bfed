"""The `jetstream-server` command: flags in, log lines and an exit code out.

Exit codes are the genuine server's: 0 after a clean end (and, as there, after a flag that does not
exist), 1 when the operator made a mistake or the storage cannot be used.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from jetstream_server import NATS_VERSION, __version__
from jetstream_server.base.errors import ConfigError, StoreError
from jetstream_server.config import flags
from jetstream_server.config.options import ServerOptions
from jetstream_server.kernels import in_use
from jetstream_server.net.log import LogSettings, ServerLog
from jetstream_server.server import Server

# The words of `--signal`.
_SIGNALS = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reload": signal.SIGHUP,
    "reopen": signal.SIGUSR1,
    "ldm": signal.SIGUSR2,
}

# A garbage collection that walks every long-lived object costs milliseconds. What the server makes
# each turn dies young, so the older generations are collected rarely. What has grown up since, such
# as the tree of a hundred long subscriptions, is looked at before it is a million objects. Where
# much comes and goes, objects are scattered over memory: twenty thousand new ones take 13 ms, and
# fifty thousand 70.
_GC_THRESHOLDS = (5_000, 3, 6000)

# How long a thread that wants the interpreter leaves it to the one that has it. The loop lets go of
# it for a moment with each socket, and is quicker to have it back than another thread is to wake
# up, whose patience then begins anew. With Python's 5 ms the thread that writes to the disk came to
# its few lines after a tenth of a second or more, and all answers that wait for it as late.
_SWITCH_SECONDS = 0.0005


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    if not __debug__:
        print("jetstream-server: does not run under -O: its assertions guard data", file=sys.stderr)
        return 1
    outcome = flags.parse(sys.argv[1:] if argv is None else argv, _version())
    if isinstance(outcome, flags.Flags) and outcome.is_check:
        outcome = flags.check(outcome)
    if isinstance(outcome, flags.Exit):
        sys.stdout.write(outcome.output)
        sys.stderr.write(outcome.error)
        return outcome.code
    if outcome.signal:
        return _send_signal(outcome.signal)
    try:
        options = flags.resolve(outcome, may_be_empty=True)
    except ConfigError as error:
        print(f"nats-server: {error}", file=sys.stderr)
        return 1
    config = outcome.config
    return serve(options, (lambda: flags.resolve(outcome)) if config else None)


def _send_signal(text: str) -> int:
    """Do what `--signal` asks for; returns the exit code."""
    word, _, process = text.partition("=")
    try:
        if word not in _SIGNALS:
            raise ValueError(f'unknown signal "{word}", it is one of {", ".join(_SIGNALS)}')
        if not process:
            raise ValueError(f"--signal needs a process id or its file, as in {word}=4711")
        number = process if process.isdecimal() else Path(process).read_text()
        os.kill(int(number), _SIGNALS[word])
    except (OSError, ValueError) as error:
        print(f"nats-server: {error}", file=sys.stderr)
        return 1
    return 0


def _version() -> str:
    """Return what `-v` shows: the offered release line, our own version, the kernels in use."""
    return f"{NATS_VERSION} (jetstream-server {__version__}, kernels: {in_use.kinds()})"


def serve(options: ServerOptions, reread: Callable[[], ServerOptions] | None = None) -> int:
    """Serve until told to stop; `reread` reads the configuration again."""
    log = ServerLog(LogSettings.of(options))
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.freeze()
    try:
        return _run(Server(options, log, reread))
    except (ConfigError, StoreError) as error:
        log.write("FTL", str(error))
        return 1


def _run(server: Server) -> int:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(server.run())
    return uvloop.run(server.run())


if __name__ == "__main__":
    sys.exit(main())
