"""Operations over wires that are cut at an exact place, for tests.

A wrapper is an operation itself: it lets the effects of another one through and, where its rule
says so, answers them with a broken connection instead of the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from jetstream_spark.client.link import Link
from jetstream_spark.client.operation import Transfer, Until


def without_answer(
    operation: Generator[Any, Any, Any], is_lost: Callable[[bytes], bool], times: int = 1
) -> Generator[Any, Any, Any]:
    """Break the connection when the answer to a request has arrived, before anybody reads it.

    Args:
        is_lost: whether the answer to these bytes, sent in one transfer, is to be lost.
        times: how many answers.
    """
    doomed: set[Link] = set()

    def judge(effect: Any, sent: bytes) -> bool:
        nonlocal times
        if not isinstance(effect, Transfer):
            return False
        if sent and times and is_lost(sent):
            times -= 1
            doomed.add(effect.link)
        return effect.link in doomed and effect.until is Until.RECEIVED

    try:
        effect = next(operation)
        while True:
            sent = b"".join(effect.link.outgoing) if isinstance(effect, Transfer) else b""
            try:
                outcome = yield effect
            except Exception as error:
                effect = operation.throw(error)
                continue
            if judge(effect, sent):
                effect = operation.throw(ConnectionResetError("cut by the test"))
            else:
                effect = operation.send(outcome)
    except StopIteration as end:
        return end.value
    finally:
        operation.close()
