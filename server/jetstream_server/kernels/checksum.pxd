"""CRC-32C of a stretch of memory, for the compiled kernels.

An instruction of the processor where there is one, eight tables where not. `crc32c_prepare` fills
the tables and is to be called once, at import.
"""

from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    static uint32_t crc32c_table[8][256];

    static void crc32c_prepare(void) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++)
                crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0);
            crc32c_table[0][i] = crc;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int slice = 1; slice < 8; slice++)
                crc32c_table[slice][i] = (crc32c_table[slice - 1][i] >> 8)
                    ^ crc32c_table[0][crc32c_table[slice - 1][i] & 0xFF];
    }

    static uint32_t crc32c_by_table(const uint8_t *at, size_t size, uint32_t before) {
        uint32_t crc = ~before;
        for (; size >= 8; size -= 8, at += 8) {
            uint64_t word;
            memcpy(&word, at, 8);
            word ^= crc;
            crc = crc32c_table[7][word & 0xFF] ^ crc32c_table[6][(word >> 8) & 0xFF]
                ^ crc32c_table[5][(word >> 16) & 0xFF] ^ crc32c_table[4][(word >> 24) & 0xFF]
                ^ crc32c_table[3][(word >> 32) & 0xFF] ^ crc32c_table[2][(word >> 40) & 0xFF]
                ^ crc32c_table[1][(word >> 48) & 0xFF] ^ crc32c_table[0][word >> 56];
        }
        for (; size; size--)
            crc = (crc >> 8) ^ crc32c_table[0][(crc ^ *at++) & 0xFF];
        return ~crc;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    __attribute__((target("sse4.2")))
    static uint32_t crc32c_by_cpu(const uint8_t *at, size_t size, uint32_t before) {
        uint64_t crc = (uint32_t)~before;
        for (; size >= 8; size -= 8, at += 8) {
            uint64_t word;
            memcpy(&word, at, 8);
            crc = _mm_crc32_u64(crc, word);
        }
        for (; size; size--)
            crc = _mm_crc32_u8((uint32_t)crc, *at++);
        return ~(uint32_t)crc;
    }
    static int crc32c_has_cpu(void) { return __builtin_cpu_supports("sse4.2"); }
    #else
    static uint32_t crc32c_by_cpu(const uint8_t *at, size_t size, uint32_t before) {
        return crc32c_by_table(at, size, before);
    }
    static int crc32c_has_cpu(void) { return 0; }
    #endif
    """
    void crc32c_prepare() nogil
    uint32_t crc32c_by_table(const uint8_t* at, size_t size, uint32_t before) nogil
    uint32_t crc32c_by_cpu(const uint8_t* at, size_t size, uint32_t before) nogil
    bint crc32c_has_cpu() nogil
