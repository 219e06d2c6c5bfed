"""Names of files that a browser saves; the rest is in `test_messages`."""

from __future__ import annotations

import pytest
from jetstream_console.pages.downloads import attachment


@pytest.mark.parametrize(
    ("name", "saved"),
    [("a-1.bin", "a-1.bin"), ('"\r\nX: y', "___X__y"), ("../ü", ".._" + "_")],
)
def test_a_name_means_nothing_to_the_header(name, saved):
    answer = attachment(b"<script>", name)
    assert answer.headers["content-disposition"] == f'attachment; filename="{saved}"'
    assert answer.headers["content-type"] == "application/octet-stream"
