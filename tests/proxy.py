"""What stands between a client and the server: connections that are cut, and that stall."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Carries bytes of every connection to one port and back, until told otherwise."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._flows = threading.Event()
        self._flows.set()
        self._bytes_to_stall: int | None = None
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, wherever they are."""
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        """Carry nothing any more; connections stay open."""
        self._flows.clear()

    def stall_after(self, sent_bytes: int) -> None:
        """Stall once the target has been sent so much more, on all connections together."""
        with self._lock:
            self._bytes_to_stall = sent_bytes

    @property
    def is_stalled(self) -> bool:
        """Whether it carries nothing."""
        return not self._flows.is_set()

    def go_on(self) -> None:
        """End a stall."""
        self._flows.set()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(
                    target=self._carry, args=(source, sink, sink is far), daemon=True
                ).start()

    def _carry(self, source: socket.socket, sink: socket.socket, is_sent: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                sink.sendall(data)
                if is_sent:
                    self._count(len(data))
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()
        with self._lock:
            self._open.discard(source)

    def _count(self, sent_bytes: int) -> None:
        with self._lock:
            if self._bytes_to_stall is None:
                return
            self._bytes_to_stall -= sent_bytes
            if self._bytes_to_stall <= 0:
                self._bytes_to_stall = None
                self._flows.clear()
