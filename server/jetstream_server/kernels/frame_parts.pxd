"""What the kernels that encode records for clients have in common: the parts of their frames."""

from jetstream_server.kernels.digits cimport digit_count, put_bytes, put_number, u64
from jetstream_server.kernels.moments cimport SECOND_BYTES, Moment, fraction_bytes, put_time
from jetstream_server.kernels.record_layout cimport VERSION_LINE_BYTES, Record, kept_bytes

cdef enum:
    STORED_LINES_BYTES = 65  # of the lines of `put_stored_lines` without their values


cdef inline char* put_sizes(
    char* at, Py_ssize_t block_bytes, Py_ssize_t payload_bytes
) noexcept nogil:
    """Write the end of the first line: the bytes of the header block, if any, and of everything."""
    at = put_bytes(at, b" ", 1)
    if block_bytes:
        at = put_number(at, block_bytes)
        at = put_bytes(at, b" ", 1)
    at = put_number(at, block_bytes + payload_bytes)
    return put_bytes(at, b"\r\n", 2)


cdef inline char* put_kept(char* at, const Record* record) noexcept nogil:
    """Write the headers that a record was stored with, without their empty line."""
    if record.header_bytes:
        return put_bytes(at, record.subject + record.subject_bytes, kept_bytes(record))
    return put_bytes(at, b"NATS/1.0\r\n", VERSION_LINE_BYTES)


cdef inline Py_ssize_t stored_lines_bytes(
    Py_ssize_t stream_bytes, const Record* record, u64 sequence
) noexcept nogil:
    """Return how many bytes `put_stored_lines` writes."""
    cdef Py_ssize_t size = STORED_LINES_BYTES + stream_bytes + record.subject_bytes
    return size + digit_count(sequence) + SECOND_BYTES + fraction_bytes(record.timestamp) + 1


cdef inline char* put_stored_lines(
    char* at,
    const char* stream,
    Py_ssize_t stream_bytes,
    const Record* record,
    u64 sequence,
    Moment* moment,
) noexcept nogil:
    """Write the header lines that say where a record is stored and since when, without their end."""
    at = put_bytes(at, b"Nats-Stream: ", 13)
    at = put_bytes(at, stream, stream_bytes)
    at = put_bytes(at, b"\r\nNats-Subject: ", 16)
    at = put_bytes(at, record.subject, record.subject_bytes)
    at = put_bytes(at, b"\r\nNats-Sequence: ", 17)
    at = put_number(at, sequence)
    at = put_bytes(at, b"\r\nNats-Time-Stamp: ", 19)
    return put_time(at, moment, record.timestamp)


cdef inline char* put_payload(
    char* at, const Record* record, Py_ssize_t payload_bytes
) noexcept nogil:
    """Write the end of a frame: as much of the payload as goes."""
    at = put_bytes(
        at, record.subject + record.subject_bytes + record.header_bytes, payload_bytes
    )
    return put_bytes(at, b"\r\n", 2)
