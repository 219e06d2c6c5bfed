"""Subject patterns: whether two of them can match the same subject. Pure."""

from __future__ import annotations


def overlaps(one: str, other: str) -> bool:
    """Whether some subject matches both patterns; `*` is one token, `>` is one or more at the end.

    >>> overlaps("orders.*.new", "orders.eu.>")
    True
    >>> overlaps("orders.>", "orders")
    False
    """
    left, right = one.split("."), other.split(".")
    for index in range(max(len(left), len(right))):
        if index >= len(left) or index >= len(right):
            return False
        a, b = left[index], right[index]
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return True
