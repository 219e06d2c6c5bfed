"""SipHash-1-3 of a stretch of memory, for the compiled kernels.

A keyed hash: who does not know the key cannot choose texts that fall into the same places of a
table. One round for every eight bytes and three at the end, as in Python's own dictionaries.
Little-endian machines only. Published by Aumasson and Bernstein, "SipHash: a fast short-input PRF".
"""

from libc.stdint cimport uint64_t


cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    #define SIP_TURN(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
    #define SIP_ROUND(v0, v1, v2, v3) \\
        v0 += v1; v1 = SIP_TURN(v1, 13); v1 ^= v0; v0 = SIP_TURN(v0, 32); \\
        v2 += v3; v3 = SIP_TURN(v3, 16); v3 ^= v2; \\
        v0 += v3; v3 = SIP_TURN(v3, 21); v3 ^= v0; \\
        v2 += v1; v1 = SIP_TURN(v1, 17); v1 ^= v2; v2 = SIP_TURN(v2, 32)

    static inline uint64_t siphash13(uint64_t k0, uint64_t k1, const char *at, size_t size) {
        uint64_t v0 = k0 ^ 0x736f6d6570736575ull, v1 = k1 ^ 0x646f72616e646f6dull;
        uint64_t v2 = k0 ^ 0x6c7967656e657261ull, v3 = k1 ^ 0x7465646279746573ull;
        uint64_t last = (uint64_t)size << 56, word = 0;
        for (; size >= 8; size -= 8, at += 8) {
            memcpy(&word, at, 8);
            v3 ^= word;
            SIP_ROUND(v0, v1, v2, v3);
            v0 ^= word;
        }
        word = 0;
        memcpy(&word, at, size);
        last |= word;
        v3 ^= last;
        SIP_ROUND(v0, v1, v2, v3);
        v0 ^= last;
        v2 ^= 0xff;
        SIP_ROUND(v0, v1, v2, v3);
        SIP_ROUND(v0, v1, v2, v3);
        SIP_ROUND(v0, v1, v2, v3);
        return v0 ^ v1 ^ v2 ^ v3;
    }

    #if defined(__GNUC__)
    #define fetch_ahead(at) __builtin_prefetch(at)
    #else
    #define fetch_ahead(at) ((void)(at))
    #endif
    """
    uint64_t siphash13(uint64_t k0, uint64_t k1, const char* at, size_t size) nogil
    void fetch_ahead(const void* at) nogil
