"""TLS as a layer: records in, plain bytes out.

Python's own `ssl` over memory, not a transport of asyncio: a NATS server sends INFO in clear and
only then sees whether the client begins a handshake, and where TLS is optional the first byte
decides. Specification: docs/reference/protocol.md#tls.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import cast

from jetstream_server.net.layer import LayerError
from jetstream_server.net.unwrapping import BYTES_OF_STEP, Unwrapping

HANDSHAKE_FAILURE = "TLS Handshake Failure"
# A handshake record (RFC 8446, 5.1); no line of the NATS protocol begins so.
FIRST_BYTE = 0x16


class TlsLayer:
    """The server's side of one TLS connection.

    Args:
        context: certificate, versions and ciphers.
        unwrapping: how many records there is time for; None for all that come.
    """

    def __init__(self, context: ssl.SSLContext, unwrapping: Unwrapping | None = None) -> None:
        self._unwrapping = unwrapping or Unwrapping()
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=True)
        self._waiting: list[bytes | memoryview] = []
        self._has_failed = False
        self.is_established = False
        self.is_over = False
        self.is_holding = False

    @property
    def version(self) -> str:
        """Return the version in use, such as `1.3`; empty before the handshake is over."""
        return (self._tls.version() or "").removeprefix("TLSv") if self.is_established else ""

    @property
    def cipher_suite(self) -> str:
        """Return the name of the cipher in use; empty before the handshake is over."""
        cipher = self._tls.cipher() if self.is_established else None
        return cipher[0] if cipher else ""

    @property
    def peer_chain(self) -> tuple[bytes, ...]:
        """Return what the client sent, its own certificate first, in DER.

        Before Python 3.13 `ssl` gives only the client's own.
        """
        tell = getattr(self._tls, "get_unverified_chain", None)
        if tell is not None:
            return tuple(tell())
        return (self.peer_certificate,) if self.peer_certificate else ()

    @property
    def peer_certificate(self) -> bytes:
        """Return the client's certificate in DER; empty when it sent none."""
        return self._tls.getpeercert(binary_form=True) or b""

    def receive(self, data: bytes) -> bytes:
        """Take records, finish the handshake when it can be finished, return plain bytes; not of
        many more records than there is time for.

        Raises:
            LayerError: the handshake failed, or a record is damaged.
        """
        self.is_holding = False  # nothing that has failed holds anything
        if self._has_failed:
            return b""
        self._arrived.write(data)
        if not self.is_established and not self._shake_hands():
            return b""
        pieces: list[bytearray] = []
        unwrapping, steps = self._unwrapping, 0
        plain, most = unwrapping.plain, unwrapping.allowance
        try:
            # What is read into a new object each time costs ten times as much.
            while size := cast(int, self._tls.read(len(plain), plain)):
                pieces.append(plain[:size])
                steps += 1 + size // BYTES_OF_STEP
                if steps >= most:
                    self.is_holding = True
                    break
            else:
                self.is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_over = True
        except ssl.SSLError as error:
            self._has_failed = True
            raise LayerError("Read Error", _words(error), b"".join(pieces)) from error
        finally:
            unwrapping.spend(steps)
        return b"".join(pieces)

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            self._has_failed = True
            raise LayerError(HANDSHAKE_FAILURE, _words(error)) from error
        self.is_established = True
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self.send(data)
        return True

    def send(self, data: bytes | memoryview) -> None:
        """Encrypt, or keep until the handshake is over."""
        if not self.is_established:
            self._waiting.append(data)
        elif not self._has_failed:
            try:
                self._tls.write(data)
            except ssl.SSLError:
                # The peer has brought TLS into a state in which nothing can be sent; what arrives
                # next tells the reason.
                self._has_failed = self.is_over = True

    def end(self, reason: str) -> None:
        """Send a closing alert."""
        if self.is_established and not self._has_failed:
            # The peer's own alert is not waited for.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()

    def take_output(self) -> bytes:
        """Return the records to send."""
        return self._leaving.read()


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
