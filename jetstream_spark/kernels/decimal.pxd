"""Reading and writing decimal numbers, eight digits a step where the processor is little-endian."""

ctypedef unsigned long long u64

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define EIGHT_DIGITS 1
    #else
    #define EIGHT_DIGITS 0
    #endif

    /* How many of the eight characters at `at` are digits before the first that is none; their
       value. Eight bytes must be readable. */
    static inline int some_digits(const char *at, unsigned long long *value) {
    #if EIGHT_DIGITS
        uint64_t word, others;
        int count = 8;
        memcpy(&word, at, 8);
        word ^= 0x3030303030303030u; /* a digit is now its value, anything else more than nine */
        others = (word | (word + 0x7676767676767676u)) & 0x8080808080808080u;
        if (others) {
            count = __builtin_ctzll(others) >> 3;
            if (count == 0)
                return 0;
            word <<= 64 - 8 * count;
        }
        word = word * 10 + (word >> 8); /* pairs */
        *value = ((word & 0x000000FF000000FFu) * 0x000F424000000064u
            + ((word >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u) >> 32;
        return count;
    #else
        return 0;
    #endif
    }

    static const unsigned long long power_of_ten[9] = {
        1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    """
    bint EIGHT_DIGITS
    int some_digits(const char* at, u64* value) nogil
    const u64* power_of_ten

cdef enum:
    DIGITS_MAX = 19  # what fits in 64 bits, whatever the digits


cdef inline const char* read_number(
    const char* at, const char* stop, u64* number
) noexcept nogil:
    """Read up to `DIGITS_MAX` digits; return where they end, NULL when there are none or more."""
    cdef const char* first = at
    cdef u64 part = 0, value = 0
    cdef unsigned int digit
    cdef int count
    while EIGHT_DIGITS and stop - at >= 8:
        count = some_digits(at, &part)
        if count == 0:
            break
        value = value * power_of_ten[count] + part
        at += count
        if count < 8 or at - first > DIGITS_MAX:
            break
    while at < stop and at - first <= DIGITS_MAX:
        digit = <unsigned int><unsigned char>at[0] - 48
        if digit > 9:
            break
        value = value * 10 + digit
        at += 1
    if at == first or at - first > DIGITS_MAX:
        return NULL
    number[0] = value
    return at


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
    """Write a number where there is room for its digits; return where they end."""
    cdef char* end = at + digit_count(number)
    cdef char* digit = end
    while True:
        digit -= 1
        digit[0] = <char>(48 + number % 10)
        number //= 10
        if number == 0:
            return end
