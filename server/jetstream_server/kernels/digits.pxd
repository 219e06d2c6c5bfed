"""Writing bytes and decimal numbers into a buffer; shared by the compiled kernels.

Whoever calls has counted the room first: two passes, one to measure and one to write, are cheaper
than a buffer that grows.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

ctypedef unsigned long long u64


cdef inline int digit_count(u64 number) noexcept nogil:
    # A division is dearer than four comparisons.
    cdef int count = 1
    while number >= 10000:
        number //= 10000
        count += 4
    if number >= 1000:
        return count + 3
    if number >= 100:
        return count + 2
    return count + 1 if number >= 10 else count


cdef inline char* put_number(char* at, u64 number) noexcept nogil:
    cdef char* end = at + digit_count(number)
    cdef char* digit = end
    cdef unsigned int low
    while number >= 100:
        low = <unsigned int>(number % 100)
        number //= 100
        digit -= 2
        digit[0] = <char>(48 + low // 10)
        digit[1] = <char>(48 + low % 10)
    if number >= 10:
        digit[-2] = <char>(48 + number // 10)
    digit[-1] = <char>(48 + number % 10)
    return end


cdef inline int signed_digit_count(int64_t number) noexcept nogil:
    """Return how many digits a number has, and a minus sign if there is one."""
    return digit_count(number) if number >= 0 else 1 + digit_count(-<u64>number)


cdef inline char* put_signed(char* at, int64_t number) noexcept nogil:
    if number >= 0:
        return put_number(at, number)
    at[0] = c"-"
    return put_number(at + 1, -<u64>number)


cdef inline char* put_bytes(char* at, const char* source, Py_ssize_t length) noexcept nogil:
    memcpy(at, source, length)
    return at + length
