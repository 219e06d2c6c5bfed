"""Where the fields of a record are: the offsets of `record_format.PREFIX`, for the compiled kernels.

Also what the genuine server would account for a record (`records/pure.py`), and how the kernels
that encode frames read one.
"""

from cpython cimport array
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.string cimport memcpy

from jetstream_server.kernels.digits cimport u64

cdef enum:
    CHECKSUM_AT = 4
    CHECKED_FROM = 8
    SEQUENCE_AT = 8
    TIMESTAMP_AT = 16
    HEADER_BYTES_AT = 24
    SUBJECT_BYTES_AT = 28
    KIND_AT = 30
    PREFIX_BYTES = 32
    UNACCOUNTED_BYTES = 2
    HEADER_ACCOUNTED_BYTES = 4
    VERSION_LINE_BYTES = 10  # NATS/1.0 CR LF


cdef struct Record:
    const char* subject
    Py_ssize_t subject_bytes
    Py_ssize_t header_bytes
    Py_ssize_t payload_bytes
    int64_t timestamp


cdef inline bint read_record(
    const char* block, Py_ssize_t block_bytes, u64 position, Record* record
) noexcept nogil:
    """Fill `record`; False when it is not wholly inside the block."""
    cdef uint32_t length, header_bytes
    cdef uint16_t subject_bytes
    cdef const char* at
    if block_bytes < PREFIX_BYTES or position > <u64>(block_bytes - PREFIX_BYTES):
        return False
    at = block + position
    memcpy(&length, at, 4)
    memcpy(&record.timestamp, at + TIMESTAMP_AT, 8)
    memcpy(&header_bytes, at + HEADER_BYTES_AT, 4)
    memcpy(&subject_bytes, at + SUBJECT_BYTES_AT, 2)
    record.subject = at + PREFIX_BYTES
    record.subject_bytes = subject_bytes
    record.header_bytes = header_bytes
    record.payload_bytes = <Py_ssize_t>length - PREFIX_BYTES - subject_bytes - header_bytes
    return record.payload_bytes >= 0 and position + length <= <u64>block_bytes


cdef struct Block:
    const char* start
    Py_ssize_t size
    const u64* wide_positions  # of its records; NULL when they are narrow
    const unsigned int* narrow_positions


cdef inline void fill_block(Block* block, const Py_buffer* view, array.array positions) noexcept:
    """Have `block` lead to the records of a buffer; whoever calls keeps both alive."""
    block.start, block.size = <const char*>view.buf, view.len
    block.wide_positions = NULL
    if positions.itemsize == sizeof(u64):
        block.wide_positions = <const u64*>positions.data.as_ulonglongs
    block.narrow_positions = positions.data.as_uints


cdef inline bint read_numbered(const Block* block, Py_ssize_t index, Record* record) noexcept nogil:
    """Fill `record` with the one of a number; False when it is not wholly inside the block."""
    cdef u64 position
    if block.wide_positions != NULL:
        position = block.wide_positions[index]
    else:
        position = block.narrow_positions[index]
    return read_record(block.start, block.size, position, record)


cdef inline Py_ssize_t kept_bytes(const Record* record) noexcept nogil:
    """Return the bytes of the headers without their empty line; without headers, of the version."""
    if not record.header_bytes:
        return VERSION_LINE_BYTES
    return record.header_bytes - 2 if record.header_bytes > 2 else 0
