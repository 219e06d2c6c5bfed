"""The command `jetstream-console`: a web server with the pages."""

from __future__ import annotations

import signal
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nicegui import app, ui
from starlette.middleware.trustedhost import TrustedHostMiddleware

from jetstream_console.answer_headers import AnswerHeaders
from jetstream_console.body_limit import BodyLimit
from jetstream_console.console import Console
from jetstream_console.cross_site import CrossSite
from jetstream_console.cut_answers import CutAnswers
from jetstream_console.gone_browsers import GoneBrowsers
from jetstream_console.pages.appearance import add_appearance
from jetstream_console.pages.registration import add_pages
from jetstream_console.pages.store import FILE_BYTES_MAX
from jetstream_console.password_gate import PasswordGate
from jetstream_console.settings import Settings, is_loopback, read_settings
from jetstream_console.upload_folder import upload_folder

# A browser that was away for so long, as it or its network stood still, has its page as it was,
# with what was typed there; a page that was closed is kept as long. A browser is asked for a sign
# every 8 seconds then, and has 4 for it.
_AWAY_S = 10


def main(arguments: Sequence[str]) -> None:
    """Serve the console until it is interrupted."""
    settings = read_settings(arguments)
    port = settings.port or _free_port(settings.host)
    add_guards(settings)
    console = Console(settings)
    app.on_startup(console.open)
    app.on_startup(_wrap_everything)
    app.on_shutdown(console.close)
    add_appearance()
    add_pages(console)
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    print(f"jetstream-console: http://{shown}:{port}", flush=True)
    with upload_folder(Path(tempfile.gettempdir())) as folder, suppress(KeyboardInterrupt):
        tempfile.tempdir = str(folder)
        # The web server ends, and then has the process end as the signal does by itself.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        ui.run(
            host=settings.host,
            port=port,
            title="JetStream console",
            dark=None,
            tailwind=False,
            show=False,
            reload=False,
            show_welcome_message=False,
            reconnect_timeout=_AWAY_S,
        )


def add_guards(settings: Settings) -> None:
    """Put in front of the pages whatever decides who may see them, and how much they may send."""
    # A little more than a file: it comes in a form.
    app.add_middleware(BodyLimit, bytes_max=FILE_BYTES_MAX + (1 << 20))
    if settings.page_password is not None:
        password = settings.page_password.resolve("page-password")
        app.add_middleware(PasswordGate, password=password)
    elif is_loopback(settings.host):
        # Pages of strangers in the same browser may make their own host name lead here. Of an IPv6
        # address only what stands before the first colon is compared.
        here = ["localhost", "[" if ":" in settings.host else settings.host]
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=here)
    app.add_middleware(CrossSite)
    app.add_middleware(AnswerHeaders)


def _wrap_everything() -> None:
    # What completes answers, and what misses browsers, is added when the pages begin to run, around
    # everything added before.
    if app.middleware_stack is not None:
        app.middleware_stack = CutAnswers(GoneBrowsers(app.middleware_stack))


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
