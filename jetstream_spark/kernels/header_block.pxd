"""Header blocks to the four levels of a map<string, list<string>>; for the compiled kernels.

    NATS/1.0\r\n<name>: <value>\r\n ... \r\n

A block is cut into lines, lines with the same name are chained, and then each name is written once
with all its values behind it. All memory grows in `Bytes`; False and NULL stand for no memory.
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

cdef struct Bytes:
    char* data
    Py_ssize_t size
    Py_ssize_t room

cdef struct Line:
    const char* name
    Py_ssize_t name_bytes
    const char* value
    Py_ssize_t value_bytes
    Py_ssize_t following  # the next line of the same name, -1 for none
    Py_ssize_t last  # of the first line of a name: the last line of it; -1 for the other lines

cdef struct Headers:
    Bytes map_offsets
    Bytes list_offsets
    Bytes name_offsets
    Bytes names
    Bytes value_offsets
    Bytes values
    Bytes lines  # of the block at hand


cdef inline bint reserve(Bytes* bytes, Py_ssize_t more) noexcept nogil:
    cdef Py_ssize_t room = bytes.room
    cdef char* grown
    if bytes.size + more <= room:
        return True
    room = 2 * room + more + 64
    grown = <char*>realloc(bytes.data, room)
    if grown == NULL:
        return False
    bytes.data = grown
    bytes.room = room
    return True


cdef inline bint append(Bytes* bytes, const void* source, Py_ssize_t size) noexcept nogil:
    if not reserve(bytes, size):
        return False
    if size:
        memcpy(bytes.data + bytes.size, source, size)
    bytes.size += size
    return True


cdef inline bint append_offset(Bytes* bytes, Py_ssize_t offset) noexcept nogil:
    cdef int number = <int>offset
    return append(bytes, &number, sizeof(int))


cdef inline Py_ssize_t entries(const Bytes* offsets) noexcept nogil:
    """How many values an array of offsets bounds."""
    return offsets.size // <Py_ssize_t>sizeof(int) - 1


cdef inline bint start_headers(Headers* headers) noexcept nogil:
    """Prepare for blocks; to be followed by `free_headers`, whatever the answer."""
    memset(headers, 0, sizeof(Headers))
    return (
        append_offset(&headers.map_offsets, 0)
        and append_offset(&headers.list_offsets, 0)
        and append_offset(&headers.name_offsets, 0)
        and append_offset(&headers.value_offsets, 0)
        and reserve(&headers.names, 1)
        and reserve(&headers.values, 1)
    )


cdef inline void free_headers(Headers* headers) noexcept nogil:
    free(headers.map_offsets.data)
    free(headers.list_offsets.data)
    free(headers.name_offsets.data)
    free(headers.names.data)
    free(headers.value_offsets.data)
    free(headers.values.data)
    free(headers.lines.data)
    memset(headers, 0, sizeof(Headers))


cdef inline bint is_ascii(const char* text, Py_ssize_t length) noexcept nogil:
    cdef unsigned char seen = 0
    cdef Py_ssize_t index
    for index in range(length):
        seen |= <unsigned char>text[index]
    return seen < 0x80


cdef inline bint is_blank(char byte) noexcept nogil:
    return byte == c" " or 9 <= byte <= 13


cdef inline bint find_lines(Headers* headers, const char* at, const char* stop) noexcept nogil:
    """Cut a block into its lines with a name, without the version line."""
    cdef const char* end
    cdef const char* colon
    cdef Line line
    cdef bint is_version = True
    line.following = -1
    line.last = -1
    headers.lines.size = 0
    while at < stop:
        end = at
        while True:
            end = <const char*>memchr(end, c"\r", stop - end)
            if end == NULL:
                end = stop
                break
            if end + 1 < stop and end[1] == c"\n":
                break
            end += 1
        if not is_version:
            colon = <const char*>memchr(at, c":", end - at)
            if colon != NULL:
                line.name = at
                line.name_bytes = colon - at
                line.value = colon + 1
                line.value_bytes = end - line.value
                while line.value_bytes and is_blank(line.value[0]):
                    line.value += 1
                    line.value_bytes -= 1
                while line.value_bytes and is_blank(line.value[line.value_bytes - 1]):
                    line.value_bytes -= 1
                if not append(&headers.lines, &line, sizeof(Line)):
                    return False
        is_version = False
        at = end + 2
    return True


cdef inline void chain_lines(Line* lines, Py_ssize_t count) noexcept nogil:
    """Chain the lines of each name, in their order."""
    cdef Py_ssize_t index, earlier
    for index in range(count):
        for earlier in range(index):
            if (
                lines[earlier].last >= 0
                and lines[earlier].name_bytes == lines[index].name_bytes
                and memcmp(lines[earlier].name, lines[index].name, lines[index].name_bytes) == 0
            ):
                lines[lines[earlier].last].following = index
                lines[earlier].last = index
                break
        else:
            lines[index].last = index


cdef inline bint take_block(Headers* headers, const char* block, Py_ssize_t size) noexcept nogil:
    """Append the headers of one message; an empty block has none."""
    cdef Line* lines
    cdef Py_ssize_t index, line, count
    if not find_lines(headers, block, block + size):
        return False
    lines = <Line*>headers.lines.data
    count = headers.lines.size // <Py_ssize_t>sizeof(Line)
    chain_lines(lines, count)
    for index in range(count):
        if lines[index].last < 0:
            continue
        if not append(&headers.names, lines[index].name, lines[index].name_bytes):
            return False
        if not append_offset(&headers.name_offsets, headers.names.size):
            return False
        line = index
        while line >= 0:
            if not append(&headers.values, lines[line].value, lines[line].value_bytes):
                return False
            if not append_offset(&headers.value_offsets, headers.values.size):
                return False
            line = lines[line].following
        if not append_offset(&headers.list_offsets, entries(&headers.value_offsets)):
            return False
    return append_offset(&headers.map_offsets, entries(&headers.name_offsets))
