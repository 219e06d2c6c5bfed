"""CRC-32C of a stretch of memory, for the compiled kernels.

An instruction of the processor where there is one, eight tables where not. `crc_prepare` fills the
tables and is to be called once, at import.
"""

from libc.stdint cimport uint32_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    /* CRC-32C: an instruction where the processor has it, eight tables where not. */
    static uint32_t crc_tables[8][256];

    static void crc_prepare(void) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t crc = n;
            for (int bit = 0; bit < 8; bit++)
                crc = (crc & 1) ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
            crc_tables[0][n] = crc;
        }
        for (uint32_t n = 0; n < 256; n++)
            for (int t = 1; t < 8; t++)
                crc_tables[t][n] =
                    (crc_tables[t - 1][n] >> 8) ^ crc_tables[0][crc_tables[t - 1][n] & 255];
    }

    static uint32_t crc_by_tables(const unsigned char *at, size_t left) {
        uint32_t crc = 0xFFFFFFFFu;
        while (left >= 8) {
            uint64_t word;
            memcpy(&word, at, 8);
            word ^= crc;
            crc = crc_tables[7][word & 255] ^ crc_tables[6][(word >> 8) & 255]
                ^ crc_tables[5][(word >> 16) & 255] ^ crc_tables[4][(word >> 24) & 255]
                ^ crc_tables[3][(word >> 32) & 255] ^ crc_tables[2][(word >> 40) & 255]
                ^ crc_tables[1][(word >> 48) & 255] ^ crc_tables[0][word >> 56];
            at += 8;
            left -= 8;
        }
        while (left--) crc = (crc >> 8) ^ crc_tables[0][(crc ^ *at++) & 255];
        return ~crc;
    }

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <nmmintrin.h>
    __attribute__((target("sse4.2")))
    static uint32_t crc_by_instruction(const unsigned char *at, size_t left) {
        uint64_t crc = 0xFFFFFFFFu;
        while (left >= 8) {
            uint64_t word;
            memcpy(&word, at, 8);
            crc = _mm_crc32_u64(crc, word);
            at += 8;
            left -= 8;
        }
        while (left--) crc = _mm_crc32_u8((uint32_t)crc, *at++);
        return ~(uint32_t)crc;
    }
    static int crc_has_instruction(void) { return __builtin_cpu_supports("sse4.2"); }
    #else
    #define crc_by_instruction crc_by_tables
    static int crc_has_instruction(void) { return 0; }
    #endif
    """
    void crc_prepare()
    uint32_t crc_by_tables(const unsigned char* at, size_t left) nogil
    uint32_t crc_by_instruction(const unsigned char* at, size_t left) nogil
    int crc_has_instruction()
