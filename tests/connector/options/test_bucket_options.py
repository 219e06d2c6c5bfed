"""What a bucket's options mean, without the rest of the map."""

from __future__ import annotations

import pytest

from jetstream_spark.options.bucket_options import key_subjects, kv_mode, read_bucket
from jetstream_spark.options.option_map import OptionMap


def test_keys_become_subjects():
    options = OptionMap({"bucket": "b", "keys": "a.*,c"})
    assert read_bucket(options) == ("b", ("a.*", "c"))
    assert options.problems == []
    assert key_subjects("b", ("a.*", "c")) == ("$KV.b.a.*", "$KV.b.c")
    assert key_subjects("b", ()) == ()


def test_no_bucket_no_keys():
    options = OptionMap({"keys": "a"})
    assert read_bucket(options) == ("", ())
    assert len(options.problems) == 1


def test_modes_in_any_case():
    assert kv_mode(" Latest ") == "latest"
    with pytest.raises(ValueError, match="one of latest, history, changes"):
        kv_mode("all")
