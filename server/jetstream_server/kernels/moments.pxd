"""Writing times in RFC 3339, for the compiled kernels that encode headers.

Neighbours mostly share their second, so its text is kept.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from jetstream_server.kernels.digits cimport put_bytes

cdef enum:
    SECOND_BYTES = 19  # 2006-01-02T15:04:05
    DAY_S = 86_400
    SECOND_NS = 1_000_000_000


cdef struct Moment:
    int64_t second  # whose text this is
    bint is_known
    char[SECOND_BYTES] text


# The first time that there is lies within a second that has not begun: nothing is multiplied back.
# Division may round down or towards zero, as whoever includes this has it.
cdef inline int64_t _second(int64_t timestamp) noexcept nogil:
    cdef int64_t second = timestamp // SECOND_NS
    return second - 1 if timestamp % SECOND_NS < 0 else second


cdef inline int64_t _fraction(int64_t timestamp) noexcept nogil:
    cdef int64_t fraction = timestamp % SECOND_NS
    return fraction + SECOND_NS if fraction < 0 else fraction


cdef inline int fraction_bytes(int64_t timestamp) noexcept nogil:
    """Return the bytes of the fraction of a second, its point included."""
    cdef int64_t fraction = _fraction(timestamp)
    cdef int digits = 9
    if not fraction:
        return 0
    while fraction % 10 == 0:
        fraction //= 10
        digits -= 1
    return 1 + digits


cdef inline void _put_two(char* at, int64_t number) noexcept nogil:
    at[0] = <char>(48 + number // 10)
    at[1] = <char>(48 + number % 10)


cdef inline void _remember_second(Moment* known, int64_t second) noexcept nogil:
    """Write the text of a second of the proleptic Gregorian calendar, counted in eras of 400 years
    that begin in March."""
    cdef int64_t days = second // DAY_S
    cdef int64_t rest = second - days * DAY_S
    cdef int64_t era, day_of_era, year_of_era, day_of_year, month, year
    cdef char* at = known.text
    if rest < 0:
        rest += DAY_S
        days -= 1
    days += 719_468  # from 0000-03-01
    era = days // 146_097 if days >= 0 else (days - 146_096) // 146_097
    day_of_era = days - era * 146_097
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    year = year_of_era + era * 400 + (1 if month >= 10 else 0)
    memcpy(at, b"0000-00-00T00:00:00", SECOND_BYTES)
    _put_two(at, year // 100)
    _put_two(at + 2, year % 100)
    _put_two(at + 5, month + 3 if month < 10 else month - 9)
    _put_two(at + 8, day_of_year - (153 * month + 2) // 5 + 1)
    _put_two(at + 11, rest // 3600)
    _put_two(at + 14, rest // 60 % 60)
    _put_two(at + 17, rest % 60)
    known.second, known.is_known = second, True


cdef inline char* put_time(char* at, Moment* known, int64_t timestamp) noexcept nogil:
    cdef int64_t second = _second(timestamp)
    cdef int64_t fraction = _fraction(timestamp)
    cdef int bytes_of_fraction = fraction_bytes(timestamp)
    cdef int digit
    if not known.is_known or known.second != second:
        _remember_second(known, second)
    at = put_bytes(at, known.text, SECOND_BYTES)
    if bytes_of_fraction:
        at[0] = c"."
        for digit in range(9, 0, -1):
            if digit < bytes_of_fraction:
                at[digit] = <char>(48 + fraction % 10)
            fraction //= 10
        at += bytes_of_fraction
    at[0] = c"Z"
    return at + 1
