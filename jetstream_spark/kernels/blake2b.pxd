"""BLAKE2b (RFC 7693) with a salt, of a message that comes in parts; for the compiled kernels.

hashlib has it too, at the price of a Python object and two calls a row. Short messages are hashed
four at a time where the processor can, each in a lane of its own, in less than half the time.
"""

from libc.stdint cimport uint8_t

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    #define BLAKE2B_BLOCK 128

    typedef struct {
        uint64_t state[8];
        uint64_t length; /* bytes in the blocks done; messages end long before 2^64 */
        size_t held;
        uint8_t block[BLAKE2B_BLOCK];
    } blake2b;

    static const uint64_t blake2b_iv[8] = {
        0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
        0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u};

    static inline uint64_t blake2b_word(const uint8_t *at) {
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        uint64_t word;
        memcpy(&word, at, 8);
        return word;
    #else
        uint64_t word = 0;
        for (int i = 7; i >= 0; i--)
            word = word << 8 | at[i];
        return word;
    #endif
    }

    #define BLAKE2B_TURN(x, n) ((x) >> (n) | (x) << (64 - (n)))
    #define BLAKE2B_MIX(a, b, c, d, x, y) \\
        a += b + (x); d = BLAKE2B_TURN(d ^ a, 32); c += d; b = BLAKE2B_TURN(b ^ c, 24); \\
        a += b + (y); d = BLAKE2B_TURN(d ^ a, 16); c += d; b = BLAKE2B_TURN(b ^ c, 63);
    /* One round; the sixteen numbers say in which order it takes the words of the block. Written
       out, because the order must be known when the code is compiled for the words to stay put. */
    #define BLAKE2B_ROUND(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf) \\
        BLAKE2B_MIX(v0, v4, v8, vc, m[s0], m[s1]) BLAKE2B_MIX(v1, v5, v9, vd, m[s2], m[s3]) \\
        BLAKE2B_MIX(v2, v6, va, ve, m[s4], m[s5]) BLAKE2B_MIX(v3, v7, vb, vf, m[s6], m[s7]) \\
        BLAKE2B_MIX(v0, v5, va, vf, m[s8], m[s9]) BLAKE2B_MIX(v1, v6, vb, vc, m[sa], m[sb]) \\
        BLAKE2B_MIX(v2, v7, v8, vd, m[sc], m[sd]) BLAKE2B_MIX(v3, v4, v9, ve, m[se], m[sf])

    #define BLAKE2B_ROUNDS \\
        BLAKE2B_ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) \\
        BLAKE2B_ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3) \\
        BLAKE2B_ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4) \\
        BLAKE2B_ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8) \\
        BLAKE2B_ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13) \\
        BLAKE2B_ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9) \\
        BLAKE2B_ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11) \\
        BLAKE2B_ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10) \\
        BLAKE2B_ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5) \\
        BLAKE2B_ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0) \\
        BLAKE2B_ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) \\
        BLAKE2B_ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)
    #define BLAKE2B_FOLD \\
        h[0] ^= v0 ^ v8; h[1] ^= v1 ^ v9; h[2] ^= v2 ^ va; h[3] ^= v3 ^ vb; \\
        h[4] ^= v4 ^ vc; h[5] ^= v5 ^ vd; h[6] ^= v6 ^ ve; h[7] ^= v7 ^ vf;

    static void blake2b_compress(blake2b *hash, const uint8_t *block, uint64_t is_last) {
        uint64_t *h = hash->state, m[16];
        uint64_t v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3];
        uint64_t v4 = h[4], v5 = h[5], v6 = h[6], v7 = h[7];
        uint64_t v8 = blake2b_iv[0], v9 = blake2b_iv[1], va = blake2b_iv[2], vb = blake2b_iv[3];
        uint64_t vc = blake2b_iv[4] ^ hash->length, vd = blake2b_iv[5];
        uint64_t ve = blake2b_iv[6] ^ (0 - is_last), vf = blake2b_iv[7];
        for (int i = 0; i < 16; i++)
            m[i] = blake2b_word(block + 8 * i);
        BLAKE2B_ROUNDS
        BLAKE2B_FOLD
    }

    static void blake2b_start(blake2b *hash, int digest_size, const uint8_t salt[16]) {
        memcpy(hash->state, blake2b_iv, sizeof blake2b_iv);
        hash->state[0] ^= 0x01010000u ^ (uint64_t)digest_size; /* no key, one leaf */
        hash->state[4] ^= blake2b_word(salt);
        hash->state[5] ^= blake2b_word(salt + 8);
        hash->length = 0;
        hash->held = 0;
    }

    static void blake2b_add(blake2b *hash, const void *data, size_t size) {
        const uint8_t *at = (const uint8_t *)data;
        size_t room = BLAKE2B_BLOCK - hash->held;
        if (size > room) { /* the last block, also a full one, is kept for the end */
            memcpy(hash->block + hash->held, at, room);
            hash->length += BLAKE2B_BLOCK;
            blake2b_compress(hash, hash->block, 0);
            hash->held = 0;
            for (at += room, size -= room; size > BLAKE2B_BLOCK; size -= BLAKE2B_BLOCK) {
                hash->length += BLAKE2B_BLOCK;
                blake2b_compress(hash, at, 0);
                at += BLAKE2B_BLOCK;
            }
        }
        if (size)
            memcpy(hash->block + hash->held, at, size);
        hash->held += size;
    }

    /* Writes all 64 bytes of the state; the digest is its beginning. */
    static void blake2b_finish(blake2b *hash, uint8_t digest[64]) {
        memset(hash->block + hash->held, 0, BLAKE2B_BLOCK - hash->held);
        hash->length += hash->held;
        blake2b_compress(hash, hash->block, 1);
        for (int i = 0; i < 64; i++)
            digest[i] = (uint8_t)(hash->state[i / 8] >> 8 * (i % 8));
    }

    /* Four messages side by side, each no longer than this. */
    #define BLAKE2B_SHORT 1024

    #if defined(__x86_64__) && defined(__GNUC__)
    typedef uint64_t blake2b_lanes __attribute__((vector_size(32)));

    static int blake2b_has_lanes(void) { return __builtin_cpu_supports("avx2"); }

    /* Writes the first sixteen bytes of each state; `text` may be read to the end of a block. */
    __attribute__((target("avx2"))) static void blake2b_short(
        const blake2b *start, uint8_t text[4][BLAKE2B_SHORT], const size_t size[4],
        uint8_t digest[4][16])
    {
        size_t last[4], most = 0;
        blake2b_lanes h[8], m[16];
        for (int lane = 0; lane < 4; lane++) {
            last[lane] = size[lane] ? (size[lane] - 1) / BLAKE2B_BLOCK : 0;
            memset(text[lane] + size[lane], 0, (last[lane] + 1) * BLAKE2B_BLOCK - size[lane]);
            if (last[lane] > most)
                most = last[lane];
        }
        for (int i = 0; i < 8; i++)
            h[i] = (blake2b_lanes){0, 0, 0, 0} + start->state[i];
        for (size_t block = 0; block <= most; block++) {
            blake2b_lanes length, is_last;
            blake2b_lanes v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3];
            blake2b_lanes v4 = h[4], v5 = h[5], v6 = h[6], v7 = h[7];
            blake2b_lanes v8, v9, va, vb, vc, vd, ve, vf;
            for (int lane = 0; lane < 4; lane++) {
                int ends = block == last[lane];
                length[lane] = ends ? size[lane] : (block + 1) * BLAKE2B_BLOCK;
                is_last[lane] = 0 - (uint64_t)ends;
            }
            for (int i = 0; i < 16; i++) {
                size_t at = block * BLAKE2B_BLOCK + 8 * i;
                m[i] = (blake2b_lanes){blake2b_word(text[0] + at), blake2b_word(text[1] + at),
                    blake2b_word(text[2] + at), blake2b_word(text[3] + at)};
            }
            v8 = v9 = va = vb = vc = vd = ve = vf = (blake2b_lanes){0, 0, 0, 0};
            v8 += blake2b_iv[0]; v9 += blake2b_iv[1]; va += blake2b_iv[2]; vb += blake2b_iv[3];
            vc += blake2b_iv[4]; vd += blake2b_iv[5]; ve += blake2b_iv[6]; vf += blake2b_iv[7];
            vc ^= length;
            ve ^= is_last;
            BLAKE2B_ROUNDS
            BLAKE2B_FOLD
            for (int lane = 0; lane < 4; lane++) {
                uint64_t words[2] = {h[0][lane], h[1][lane]};
                if (block == last[lane]) /* what this lane does from here on is of no interest */
                    memcpy(digest[lane], words, 16);
            }
        }
    }
    #else
    static int blake2b_has_lanes(void) { return 0; }
    static void blake2b_short(
        const blake2b *start, uint8_t text[4][BLAKE2B_SHORT], const size_t size[4],
        uint8_t digest[4][16])
    {
    }
    #endif
    """
    ctypedef struct blake2b:
        pass

    enum:
        BLAKE2B_SHORT

    bint blake2b_has_lanes() nogil
    void blake2b_short(
        const blake2b* start, uint8_t (*text)[1024], const size_t* size, uint8_t (*digest)[16]
    ) nogil

    void blake2b_start(blake2b* hash, int digest_size, const uint8_t* salt) nogil
    void blake2b_add(blake2b* hash, const void* data, size_t size) nogil
    void blake2b_finish(blake2b* hash, uint8_t* digest) nogil
