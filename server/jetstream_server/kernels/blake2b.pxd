"""BLAKE2b-512 of a stretch of memory, for the compiled kernels.

A hash for which nobody finds two texts with the same value: what has it need not be compared with
the text. `hashlib` has it as well, at the price of a Python call for each text, and of the GIL.
Little-endian machines only. Published as RFC 7693.
"""


cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    #define BLAKE_BLOCK 128
    #define BLAKE_TURN(x, b) (((x) >> (b)) | ((x) << (64 - (b))))
    #define BLAKE_MIX(a, b, c, d, x, y) \\
        a += b + (x); d = BLAKE_TURN(d ^ a, 32); c += d; b = BLAKE_TURN(b ^ c, 24); \\
        a += b + (y); d = BLAKE_TURN(d ^ a, 16); c += d; b = BLAKE_TURN(b ^ c, 63)

    static const uint64_t blake_start[8] = {
        0x6a09e667f3bcc908ull, 0xbb67ae8584caa73bull, 0x3c6ef372fe94f82bull, 0xa54ff53a5f1d36f1ull,
        0x510e527fade682d1ull, 0x9b05688c2b3e6c1full, 0x1f83d9abfb41bd6bull, 0x5be0cd19137e2179ull
    };

    static const uint8_t blake_order[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
        {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
        {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
        {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
        {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}
    };

    static void blake_block(uint64_t *state, const char *block, uint64_t hashed, int is_last) {
        uint64_t m[16], v[16];
        memcpy(m, block, BLAKE_BLOCK);
        memcpy(v, state, 64);
        memcpy(v + 8, blake_start, 64);
        v[12] ^= hashed;
        if (is_last) v[14] = ~v[14];
        #pragma GCC unroll 12  /* then the order is known, which makes it half as fast again */
        for (int round = 0; round < 12; round++) {
            const uint8_t *s = blake_order[round % 10];
            BLAKE_MIX(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
            BLAKE_MIX(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
            BLAKE_MIX(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
            BLAKE_MIX(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
            BLAKE_MIX(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
            BLAKE_MIX(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
            BLAKE_MIX(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
            BLAKE_MIX(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
        }
        for (int i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
    }

    static void blake2b_512(const char *text, size_t size, char *digest) {
        uint64_t state[8], hashed = 0;
        char last[BLAKE_BLOCK] = {0};
        memcpy(state, blake_start, 64);
        state[0] ^= 0x01010000 ^ 64;
        for (; size - hashed > BLAKE_BLOCK; text += BLAKE_BLOCK) {
            hashed += BLAKE_BLOCK;
            blake_block(state, text, hashed, 0);
        }
        memcpy(last, text, size - hashed);
        blake_block(state, last, size, 1);
        memcpy(digest, state, 64);
    }
    """
    void blake2b_512(const char* text, size_t size, char* digest) nogil
