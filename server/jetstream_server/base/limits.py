"""Numbers that bound what a peer can make the server hold, and where each comes from."""

from __future__ import annotations

# Defaults of the genuine server.
CONTROL_LINE_BYTES_MAX = 4096
PAYLOAD_BYTES_MAX = 1024 * 1024
PENDING_BYTES_MAX = 64 * 1024 * 1024
CONNECTIONS_MAX = 65536

# A session whose unsent output passes the high mark is not delivered to until it is below the low
# one; far under PENDING_BYTES_MAX, where it would be cut off as a slow consumer.
OUTBOX_HIGH_BYTES = 4 * 1024 * 1024
OUTBOX_LOW_BYTES = 1 * 1024 * 1024

# One client's share of a turn; what it has sent beyond that waits in its socket for the next turn,
# so that nobody has to wait for all that a flooding client can send.
TURN_READ_BYTES = 512 * 1024

# What it says in that is counted; a long subject to listen to counts more than once.
SUBJECT_BYTES_OF_OP = 64

# Publishers that are faster than the disk: once more than the first mark waits for it, those that
# have sent more than so much of it are not read from, and above the high mark none that publishes,
# until it is less than the low mark.
UNFLUSHED_HIGH_BYTES = 32 * 1024 * 1024
UNFLUSHED_MUCH_BYTES = 16 * 1024 * 1024
UNFLUSHED_LOW_BYTES = 8 * 1024 * 1024
UNFLUSHED_SHARE_BYTES = 64 * 1024

# Stream limits of the genuine server: header block of a stored message, one stored record.
HEADER_BYTES_MAX = 65535
RECORD_BYTES_MAX = 32 * 1024 * 1024
