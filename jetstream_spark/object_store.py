"""One object store through the API of its stream: what objects there are, and which chunks.

Reads go to the stream's leader, not by direct get, which a replica that lags behind may answer.
"""

from __future__ import annotations

import base64

from jetstream_spark.client.agreement import Agreement
from jetstream_spark.client.control import (
    MESSAGE_NOT_FOUND,
    STREAM_NOT_FOUND,
    Control,
)
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import RequestRefusedError
from jetstream_spark.object_info import ObjectInfo, parse_info
from jetstream_spark.options.option_values import timestamp_ns


class ObjectStore:
    """The messages of one store.

    Args:
        stream: the store's stream.
    """

    def __init__(self, control: Control, stream: str) -> None:
        self.stream = stream
        self._control = control

    def last(self, subject: str) -> Operation[tuple[bytes, bytes, int, int] | None]:
        """The last message of a subject: headers, payload, sequence, time in nanoseconds."""
        try:
            answer = yield from self._control.look_up(
                f"STREAM.MSG.GET.{self.stream}", {"last_by_subj": subject}
            )
        except RequestRefusedError as error:
            if error.err_code in (MESSAGE_NOT_FOUND, STREAM_NOT_FOUND):
                return None
            raise
        message = answer["message"]
        headers, payload = (base64.b64decode(message.get(part, "")) for part in ("hdrs", "data"))
        return headers, payload, int(message["seq"]), timestamp_ns(str(message["time"]))

    def info(self, subject: str) -> Operation[ObjectInfo | None]:
        """The description of an object as it is now; None when there never was one.

        Raises:
            ObjectDamagedError: the description cannot be read.
        """
        found = yield from self.last(subject)
        if found is None:
            return None
        _, payload, revision, modified_ns = found
        return parse_info(payload, subject, revision, modified_ns)

    def purge(self, subject: str) -> Operation[None]:
        """Remove every message of a subject."""
        try:
            yield from self._control.look_up(f"STREAM.PURGE.{self.stream}", {"filter": subject})
        except RequestRefusedError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise

    def subjects(self, pattern: str) -> Operation[set[str]]:
        """The subjects that have messages.

        Of a replicated store all that were listed within `AGREED_S`: who no longer leads lists what
        there was. So a few may be among them that have none any more.
        """
        agreement = Agreement(self._control.host)
        found: set[str] = set()
        while True:
            is_replicated = yield from self._list_into(found, pattern)
            if not is_replicated or not (yield from agreement.wait()):
                return found

    def _list_into(self, found: set[str], pattern: str) -> Operation[bool]:
        """List subjects page by page; return whether the store is replicated."""
        listed = 0
        while True:
            body = {"subjects_filter": pattern, "offset": listed}
            answer = yield from self._control.look_up(f"STREAM.INFO.{self.stream}", body)
            page = answer["state"].get("subjects") or ()
            found.update(map(str, page))
            listed += len(page)
            if not page or listed >= int(answer.get("total", 0)):
                return int(answer["config"].get("num_replicas", 1)) > 1
