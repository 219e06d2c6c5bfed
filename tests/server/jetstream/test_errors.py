"""The table of refusals: numbers, texts, and how texts are filled in."""

from __future__ import annotations

from collections import Counter

import pytest
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream import errors


def test_numbers_are_unique_and_in_the_range_of_jetstream() -> None:
    rows = [value for value in vars(errors).values() if isinstance(value, errors.Refusal)]
    numbers = Counter(row.err_code for row in rows)
    # A batch finds no place for two reasons.
    assert [number for number, count in numbers.items() if count > 1] == [10210]
    assert {row.err_code for row in rows} == set(errors.TABLE)
    assert all(10000 < row.err_code < 10300 for row in rows)
    assert all(row.code in (400, 404, 409, 412, 429, 500, 503) for row in rows)


def test_a_refusal_without_a_text_to_fill_in() -> None:
    error = errors.STREAM_NOT_FOUND()
    assert isinstance(error, ApiError)
    assert (error.code, error.err_code, error.description) == (404, 10059, "stream not found")


def test_texts_are_filled_in_literally() -> None:
    assert errors.INVALID_JSON('unknown field "{}"').description == (
        'invalid JSON: unknown field "{}"'
    )
    assert errors.SEQUENCE_NOT_FOUND(5).description == "sequence 5 not found"
    assert errors.STREAM_EXTERNAL_API_OVERLAP("$JS.API", "{}").description == (
        "stream external api prefix $JS.API must not overlap with {}"
    )


def test_a_missing_or_surplus_text_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        errors.INVALID_JSON()
    with pytest.raises(AssertionError):
        errors.STREAM_NOT_FOUND("ORDERS")
