"""Subject patterns: whether two can match the same subject, or one matches all that another does.
Pure."""

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


def covers(wide: str, narrow: str) -> bool:
    """Whether every subject that matches the second pattern matches the first.

    >>> covers("orders.*", "orders.new"), covers("orders.>", "orders.*.new")
    (True, True)
    >>> covers("orders.*", "orders.>"), covers("orders.>", "orders")
    (False, False)
    """
    outer, inner = wide.split("."), narrow.split(".")
    for index, token in enumerate(outer):
        if index >= len(inner):
            return False
        if token == ">":
            return True
        if inner[index] == ">" or (token != "*" and token != inner[index]):
            return False
    return len(outer) == len(inner)
