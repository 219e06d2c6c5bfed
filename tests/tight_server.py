"""The server as ever, but with room for 1 MiB of what open atomic batches of a stream hold.

Its configuration has no word for that, and 256 MiB take long to fill.
"""

from __future__ import annotations

import sys

from jetstream_server.cli import main
from jetstream_server.jetstream import open_batches

if __name__ == "__main__":
    open_batches.HELD_OF_STREAM_MAX_BYTES = 1 << 20
    sys.exit(main())
