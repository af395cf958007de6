// Look at sixteen neighbours at once, with whatever vectors the machine has.
#pragma once
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "items.hpp"

namespace eddyline {

constexpr size_t PARTITION = 16;  // a cache line of 32-bit keys

// Number of keys below x.
inline u32 below16(const u32* keys, u32 x) {
#if defined(__AVX512F__)
    return __builtin_popcount(_mm512_cmplt_epu32_mask(_mm512_loadu_si512(keys), _mm512_set1_epi32(x)));
#elif defined(__AVX2__)
    const __m256i top = _mm256_set1_epi32(int(0x80000000)), limit = _mm256_set1_epi32(int(x ^ 0x80000000));
    u32 count = 0;
    for (int half = 0; half < 2; half++) {
        __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + 8 * half));
        __m256i under = _mm256_cmpgt_epi32(limit, _mm256_xor_si256(some, top));
        count += __builtin_popcount(_mm256_movemask_ps(_mm256_castsi256_ps(under)));
    }
    return count;
#else
    u32 count = 0;
    for (size_t i = 0; i < PARTITION; i++) count += keys[i] < x;
    return count;
#endif
}

inline u32 below16(const u64* keys, u64 x) {
#if defined(__AVX512F__)
    __m512i limit = _mm512_set1_epi64(i64(x));
    return __builtin_popcount(_mm512_cmplt_epu64_mask(_mm512_loadu_si512(keys), limit)) +
           __builtin_popcount(_mm512_cmplt_epu64_mask(_mm512_loadu_si512(keys + 8), limit));
#else
    u32 count = 0;
    for (size_t i = 0; i < PARTITION; i++) count += keys[i] < x;
    return count;
#endif
}

// Which of the keys are at most x, or at least, a bit for each.
template <class K> inline u32 at_most16(const K* keys, K x) {
#if defined(__AVX512F__)
    if constexpr (sizeof(K) == 4)
        return _mm512_cmple_epu32_mask(_mm512_loadu_si512(keys), _mm512_set1_epi32(int(x)));
    else
        return _mm512_cmple_epu64_mask(_mm512_loadu_si512(keys), _mm512_set1_epi64(i64(x))) |
               u32(_mm512_cmple_epu64_mask(_mm512_loadu_si512(keys + 8), _mm512_set1_epi64(i64(x)))) << 8;
#else
    u32 hits = 0;
    for (size_t i = 0; i < PARTITION; i++) hits |= u32(keys[i] <= x) << i;
    return hits;
#endif
}
template <class K> inline u32 at_least16(const K* keys, K x) {
#if defined(__AVX512F__)
    if constexpr (sizeof(K) == 4)
        return _mm512_cmpge_epu32_mask(_mm512_loadu_si512(keys), _mm512_set1_epi32(int(x)));
    else
        return _mm512_cmpge_epu64_mask(_mm512_loadu_si512(keys), _mm512_set1_epi64(i64(x))) |
               u32(_mm512_cmpge_epu64_mask(_mm512_loadu_si512(keys + 8), _mm512_set1_epi64(i64(x)))) << 8;
#else
    u32 hits = 0;
    for (size_t i = 0; i < PARTITION; i++) hits |= u32(keys[i] >= x) << i;
    return hits;
#endif
}

// Which of the intervals [low, high] overlap [a, b], a bit for each.
template <class K> inline u32 overlap16(const K* low, const K* high, K a, K b) {
    return at_most16(low, b) & at_least16(high, a);
}

// Which of sixteen words are among the `size` from `start` on, modulo 2^32.
inline u32 within16(const u32* words, u32 start, u32 size) {
#if defined(__AVX512F__)
    __m512i age = _mm512_sub_epi32(_mm512_loadu_si512(words), _mm512_set1_epi32(int(start)));
    return _mm512_cmplt_epu32_mask(age, _mm512_set1_epi32(int(size)));
#else
    u32 hits = 0;
    for (size_t i = 0; i < PARTITION; i++) hits |= u32(words[i] - start < size) << i;
    return hits;
#endif
}

// Write down those of sixteen words whose bit is set, and return the end of them.
inline u32* compress16(u32* to, const u32* from, u32 bits) {
#if defined(__AVX512F__)
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(__mmask16(bits), _mm512_loadu_si512(from)));
    return to + __builtin_popcount(bits);
#else
    for (; bits; bits &= bits - 1) *to++ = from[__builtin_ctz(bits)];
    return to;
#endif
}

}  // namespace eddyline
