"""A column of bytes as a C loop sees it: a column of Arrow, or one value that every row shares."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

cdef struct Values:
    const int* offsets  # NULL when all rows share one value
    const char* data
    Py_ssize_t size  # of the shared value


cdef inline const char* value_at(const Values* values, Py_ssize_t row) noexcept nogil:
    return values.data if values.offsets == NULL else values.data + values.offsets[row]


cdef inline Py_ssize_t size_at(const Values* values, Py_ssize_t row) noexcept nogil:
    if values.offsets == NULL:
        return values.size
    return values.offsets[row + 1] - values.offsets[row]


cdef inline char* address(buffer) except? NULL:
    """Where the memory of an Arrow buffer is; None has none."""
    return NULL if buffer is None else <char*><size_t>buffer.address


cdef inline Values values_of(column) except *:
    """Look into a binary column without nulls, or bytes; valid as long as that object lives."""
    cdef Values values
    if isinstance(column, bytes):
        values.offsets = NULL
        values.data = PyBytes_AS_STRING(column)
        values.size = PyBytes_GET_SIZE(column)
        return values
    if str(column.type) != "binary" or column.null_count:
        raise TypeError(f"a binary column without nulls is needed, not {column.type}")
    return entries_of(column)


cdef inline Values entries_of(column) except *:
    """Look into a column of bytes or text, whatever is null in it."""
    cdef Values values
    _, offsets, data = column.buffers()
    values.size = 0
    values.data = address(data)
    if values.data == NULL:
        values.data = b""
    if len(column):
        values.offsets = <const int*>address(offsets) + <Py_ssize_t>column.offset
    else:
        values.offsets = <const int*>values.data  # never looked at
    return values


cdef inline tuple allocated(Py_ssize_t rows, Py_ssize_t total, str what):
    """Return buffers of Arrow for the offsets and the bytes of a binary column.

    Raises:
        ArrowCapacityError: its offsets cannot count so many bytes.
    """
    import pyarrow as pa

    if total > 0x7FFFFFFF:
        raise pa.ArrowCapacityError(f"{total} bytes of {what} do not fit in 2 GiB")
    return pa.allocate_buffer((rows + 1) * sizeof(int)), pa.allocate_buffer(total)
