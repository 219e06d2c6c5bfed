"""Long configurations, and those that name files: very many users and accounts, certificates, JWTs.

Each takes a folder, writes there what it names, and returns lines of a server's configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.parity import credentials

_SYSTEM = "SYSTEM { users: [ {user: system, password: s3cret} ] }\n"
_WITNESS = "{user: witness, password: s3cret}"
_KEY_BITS = 2048
_STORAGE = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}


def tls(folder: Path) -> str:
    """Let clients in by TLS, with a certificate as most have one, and in clear."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(certificate.public_bytes(encoding))
    (folder / "key.pem").write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    files = f'cert_file: "{folder}/cert.pem", key_file: "{folder}/key.pem"'
    return f"tls {{ {files} }}\nallow_non_tls: true\n"


def many_users(folder: Path) -> str:
    """Have 5,000 users, each with permissions of its own."""
    rights = 'publish: ["a.{0}.>"], subscribe: ["b.{0}.>", "_INBOX.>"]'
    users = "\n".join(
        f"{{user: u{n}, password: p{n}, permissions: {{ {rights.format(n)} }} }}"
        for n in range(5000)
    )
    others = f"OTHERS {{ jetstream: enabled, users: [ {_WITNESS}\n{users} ] }}"
    return f"accounts {{ {_SYSTEM}{others} }}\nsystem_account: SYSTEM\n"


def users_of_file(file: Path) -> str:
    """Have users in a file, for whom the folders of both files are in the same one."""
    others = f'OTHERS {{ jetstream: enabled, include "../{file.parent.name}/{file.name}" }}\n'
    return f"accounts {{ {_SYSTEM}{others} }}\nsystem_account: SYSTEM\n"


def users(names: Iterable[str]) -> str:
    """Return the content of such a file: the witness, and others."""
    others = "\n".join(f"{{user: {name}, password: s3cret}}" for name in names)
    return f"users: [ {_WITNESS}\n{others} ]\n"


def many_imports(folder: Path) -> str:
    """Have an account that imports 2,000 streams of another one."""
    subjects = [f"x.{number}.>" for number in range(2000)]
    exports = ", ".join(f'{{stream: "{subject}"}}' for subject in subjects)
    imports = ", ".join(f'{{stream: {{account: E, subject: "{each}"}}}}' for each in subjects)
    others = (
        f"OTHERS {{ jetstream: enabled, users: [ {_WITNESS} ] }}\n"
        f"E {{ exports: [ {exports} ] }}\n"
        f"I {{ users: [ {{user: importer, password: s3cret}} ], imports: [ {imports} ] }}"
    )
    return f"accounts {{ {_SYSTEM}{others} }}\nsystem_account: SYSTEM\n"


def many_importers(folder: Path) -> str:
    """Have 60 accounts that import a stream of another one."""
    exported = "E { users: [ {user: e, password: s3cret} ], exports: [ {stream: 'S.>'} ] }\n"
    importers = "".join(
        f"A{n} {{ jetstream: enabled, users: [ {{user: u{n}, password: s3cret}} ],"
        " imports: [ {stream: {account: E, subject: 'S.>'}} ] }\n"
        for n in range(60)
    )
    others = f"OTHERS {{ jetstream: enabled, users: [ {_WITNESS} ] }}\n{exported}{importers}"
    return f"accounts {{ {_SYSTEM}{others} }}\nsystem_account: SYSTEM\n"


def many_denials(folder: Path) -> str:
    """Have a user to whom 1,000 patterns are denied, to publish and to subscribe to."""
    denied = "{deny: [" + ", ".join(f"'d.{n}.*.x.{n}'" for n in range(1000)) + "]}"
    rights = f"permissions: {{ publish: {denied}, subscribe: {denied} }}"
    users = f"{_WITNESS}, {{user: bound, password: s3cret, {rights} }}"
    return f"authorization {{ users: [ {users} ] }}\n"


def starry_denials(folder: Path) -> str:
    """Have a user to whom 10,000 patterns are denied, any of which a subject of 8 tokens can match
    to the last but one."""
    stars = [format(n, "07b").replace("0", "*.").replace("1", "a.") for n in range(1, 128)]
    denied = ", ".join(f"'{each}{n}'" for each in stars for n in range(79))
    rights = f"permissions: {{ publish: {{deny: [{denied}]}} }}"
    users = f"{_WITNESS}, {{user: bound, password: s3cret, {rights} }}"
    return f"authorization {{ users: [ {users} ] }}\n"


def many_mappings(folder: Path) -> str:
    """Have 2,000 mappings of subjects."""
    form = '"m.{0}.*.*": "n.{0}.{{{{wildcard(2)}}}}.{{{{wildcard(1)}}}}"'
    mappings = ", ".join(form.format(number) for number in range(2000))
    others = f"OTHERS {{ jetstream: enabled, users: [ {_WITNESS} ], mappings: {{ {mappings} }} }}"
    return f"accounts {{ {_SYSTEM}{others} }}\nsystem_account: SYSTEM\n"


def ring_of_accounts(folder: Path) -> str:
    """Have 1,000 accounts, each of which imports from the next one."""
    others = f"OTHERS {{ jetstream: enabled, users: [ {_WITNESS} ] }}\n"
    ring = "".join(
        f"A{n} {{ exports: [ {{stream: 'x.{n}.>'}} ],"
        f" imports: [ {{stream: {{account: A{after}, subject: 'x.{after}.>'}}}} ],"
        f" users: [ {{user: r{n}, password: s}} ] }}\n"
        for n, after in ((n, (n + 1) % 1000) for n in range(1000))
    )
    return f"accounts {{ {_SYSTEM}{others}{ring} }}\nsystem_account: SYSTEM\n"


def many_claims(folder: Path) -> str:
    """Have 5,000 accounts of an operator, beside those of the witness and of the system."""
    return _claims(folder, 5000)


def few_claims(folder: Path) -> str:
    """Have those of the witness and of the system alone."""
    return _claims(folder, 0)


def _claims(folder: Path, others: int) -> str:
    limits = {"SYSTEM": {}, "WITNESS": _STORAGE} | {f"N{n}": {} for n in range(others)}
    preloaded = "\n".join(
        f"{credentials.account_key(name).public}: {credentials.account(name, each)}"
        for name, each in limits.items()
    )
    operator = credentials.OPERATOR
    signed = credentials.token("operator", operator, operator.public, "operator", {})
    (folder / "jwt").mkdir()
    return (
        f"operator: {signed}\nsystem_account: {credentials.account_key('SYSTEM').public}\n"
        f'resolver: {{ type: full, dir: "{folder}/jwt", allow_delete: true }}\n'
        f"resolver_preload: {{ {preloaded} }}\n"
    )


def changed_claims(number: int) -> bytes:
    """Return other claims of one of those accounts."""
    return credentials.account(f"N{number}", {"conn": 7 + number}).encode()


def exporting_claims() -> bytes:
    """Return the claims of an account that exports 2,400 streams."""
    exports = [{"name": each, "subject": each, "type": "stream"} for each in _claimed_subjects()]
    return credentials.account("EXPORTER", {}, exports=exports).encode()


def importing_claims() -> bytes:
    """Return those of an account that imports all of them."""
    whose = credentials.account_key("EXPORTER").public
    imports = [
        {"name": each, "subject": each, "type": "stream", "account": whose, "local_subject": each}
        for each in _claimed_subjects()
    ]
    return credentials.account("IMPORTER", {}, imports=imports).encode()


def _claimed_subjects() -> list[str]:
    return [f"x.{number}.>" for number in range(2400)]


def bearer(account: str, name: str = "bearer") -> dict[str, str]:
    """Return what a user of an operator's account says in CONNECT."""
    return {"jwt": credentials.user(name, account, bearer_token=True)}
