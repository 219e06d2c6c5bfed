"""What is exchanged when a connection is opened: INFO, whether to use TLS, the fields of CONNECT.

Credentials are resolved here, at the last moment, in the process that connects.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jetstream_spark import __version__
from jetstream_spark.errors import (
    AuthenticationFailedError,
    ConnectionFailedError,
    ProtocolViolationError,
    SecretUnreadableError,
)
from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.option_values import ServerAddress, read_secret_file

if TYPE_CHECKING:
    import ssl

# A control line of the server is an INFO at worst, a few kilobytes in a large cluster.
LINE_BYTES_MAX = 1 << 16

_CREDS_BLOCK = re.compile(r"-+BEGIN ([A-Z ]+?)-+\s*([^\s-][^\s]*)\s*-+END", re.DOTALL)


def parse_info(line: bytes) -> dict[str, Any]:
    """The object in the first line of a server.

    Raises:
        ProtocolViolationError: the line is something else.
    """
    if not line.upper().startswith(b"INFO ") or not line.endswith(b"\n"):
        raise ProtocolViolationError(
            f"it answered {line[:60]!r} instead of INFO; a NATS server speaks first (with TLS at "
            f"once it needs tlsFirst=true)"
        )
    try:
        info = json.loads(line[5:])
    except (ValueError, RecursionError):
        raise ProtocolViolationError("its INFO is not JSON") from None
    if not isinstance(info, dict):
        raise ProtocolViolationError("its INFO is not a JSON object")
    return info


def check_tls_agreement(
    options: ConnectionOptions, server: ServerAddress, info: dict[str, Any]
) -> None:
    """Make sure that the server uses TLS if the options ask for it, and only then.

    Raises:
        ConnectionFailedError: the two do not agree.
    """
    if options.tls is False:
        raise ConnectionFailedError(
            f"{server} demands TLS, and the option tls is false; remove the option or set it true"
        )
    if not info.get("tls_required") and not info.get("tls_available"):
        raise ConnectionFailedError(f"{server} does not offer TLS, which the options ask for")


def tls_context(options: ConnectionOptions) -> ssl.SSLContext:
    """The context that the options ask for; certificates are always verified.

    Raises:
        SecretUnreadableError: a certificate or key file cannot be used in this process.
    """
    import ssl

    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    if options.tls_ca_file:
        with _naming("tlsCaFile", options.tls_ca_file):
            context.load_verify_locations(cafile=options.tls_ca_file)
    if options.tls_cert_file:
        with _naming("tlsCertFile", f"{options.tls_cert_file}' and '{options.tls_key_file}"):
            context.load_cert_chain(options.tls_cert_file, options.tls_key_file)
    return context


@contextlib.contextmanager
def _naming(option: str, files: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # includes ssl.SSLError
        raise SecretUnreadableError(
            f"option '{option}' names '{files}', which cannot be used here: {error}.",
            "They must be PEM files that exist on the driver and on every executor.",
        ) from None


def connect_fields(
    options: ConnectionOptions, info: dict[str, Any], name: str, is_encrypted: bool
) -> dict[str, Any]:
    """The JSON object of CONNECT.

    Raises:
        SecretUnreadableError: a credential cannot be read in this process.
        AuthenticationFailedError: a credential is malformed.
    """
    fields: dict[str, Any] = {
        "verbose": False,
        "pedantic": False,
        "tls_required": is_encrypted,
        "name": name,
        "lang": "python-jetstream-spark",
        "version": __version__,
        "protocol": 1,
        "echo": False,
        "headers": True,
        "no_responders": True,
    }
    nonce = str(info.get("nonce", ""))
    if options.password is not None:
        fields["user"] = options.user
        fields["pass"] = options.password.resolve("password")
    elif options.token is not None:
        fields["auth_token"] = options.token.resolve("token")
    elif options.creds_file:
        jwt, seed = _split_creds("credsFile", read_secret_file("credsFile", options.creds_file))
        fields |= {"jwt": jwt, **_signature("credsFile", seed, nonce)}
    elif options.creds_secret is not None:
        jwt, seed = _split_creds("credsSecret", options.creds_secret.resolve("credsSecret"))
        fields |= {"jwt": jwt, **_signature("credsSecret", seed, nonce)}
    elif options.nkey_file:
        seed = read_secret_file("nkeyFile", options.nkey_file).strip()
        fields |= _signature("nkeyFile", seed, nonce)
    elif options.nkey_seed_secret is not None:
        seed = options.nkey_seed_secret.resolve("nkeySeedSecret").strip()
        fields |= _signature("nkeySeedSecret", seed, nonce)
    return fields


def _split_creds(option: str, text: str) -> tuple[str, str]:
    blocks = dict(_CREDS_BLOCK.findall(text))
    jwt = blocks.get("NATS USER JWT")
    seed = blocks.get("USER NKEY SEED")
    if jwt is None or seed is None:
        raise AuthenticationFailedError(
            f"option '{option}' does not hold a user JWT and an nkey seed.",
            "Give it what `nsc generate creds` writes.",
        )
    return jwt, seed


def _signature(option: str, seed: str, nonce: str) -> dict[str, str]:
    try:
        import nkeys
    except ImportError as error:
        raise SecretUnreadableError(
            f"option '{option}' needs the package nkeys, which is not installed here: {error}.",
            "Install it on the driver and on every executor: pip install nkeys.",
        ) from None
    if not nonce:
        # The server demands no signature; a user that names itself would be refused.
        return {}
    try:
        pair = nkeys.from_seed(seed.encode())
        signature = base64.urlsafe_b64encode(pair.sign(nonce.encode())).rstrip(b"=")
        return {"nkey": pair.public_key.decode(), "sig": signature.decode()}
    except Exception:
        # Nothing of the original error is repeated: it may quote the seed.
        raise AuthenticationFailedError(
            f"option '{option}' does not hold a valid user nkey seed.",
            "A seed starts with SU and is one line.",
        ) from None
