"""What an object store holds, as the disk of the server has it."""

from __future__ import annotations

from hashlib import sha256

from jetstream_spark.object_info import ObjectInfo, chunk_subject, digest_text, parse_info
from tests.connector_sim.server import Server
from tests.connector_sim.truth import require


class ObjectView:
    """One store at one moment.

    Attributes:
        objects: what is said of each, by its name.
    """

    def __init__(self, server: Server, stream: str) -> None:
        self.objects: dict[str, ObjectInfo] = {}
        self._chunks: dict[str, list[bytes]] = {}
        for one in server.messages(stream):
            subject = one.subject.decode()
            if ".C." in subject:
                self._chunks.setdefault(subject, []).append(one.payload)
            else:
                info = parse_info(one.payload, subject, one.sequence, 0)
                self.objects[info.name] = info

    def content(self, info: ObjectInfo) -> bytes:
        """Its chunks, put together."""
        return b"".join(self._chunks.get(chunk_subject(info), ()))

    def check_whole(self) -> None:
        """Complain of an object whose chunks are not what it promises."""
        for name, info in self.objects.items():
            if not info.is_deleted:
                content = self.content(info)
                is_whole = digest_text(self.sha256(content)) == info.digest
                require(is_whole, f"object {name} is damaged: {info.size} bytes, here", content)

    def orphans(self) -> list[str]:
        """The subjects of chunks that no object is made of."""
        used = {chunk_subject(info) for info in self.objects.values() if not info.is_deleted}
        return sorted(set(self._chunks) - used)

    @staticmethod
    def sha256(content: bytes) -> bytes:
        """The digest of a content."""
        return sha256(content).digest()
