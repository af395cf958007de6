// Look at sixteen neighbours at once, or at eight, with whatever vectors the machine has.
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

constexpr size_t LANES = 8;

// Which of eight words are `start` or follow it, modulo 2^32.
inline u32 from8(const u32* words, u32 start) {
#if defined(__AVX2__)
    __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
    __m256i age = _mm256_sub_epi32(some, _mm256_set1_epi32(int(start)));
    return 0xFF ^ u32(_mm256_movemask_ps(_mm256_castsi256_ps(age)));
#else
    u32 hits = 0;
    for (size_t i = 0; i < LANES; i++) hits |= u32(int32_t(words[i] - start) >= 0) << i;
    return hits;
#endif
}

// Which of eight keys are `from` or above it by at most `span`.
template <class K> inline u32 within8(const K* keys, K from, K span) {
#if defined(__AVX512VL__)
    if constexpr (sizeof(K) == 4) {
        __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys));
        __m256i above = _mm256_sub_epi32(some, _mm256_set1_epi32(int(from)));
        return _mm256_cmple_epu32_mask(above, _mm256_set1_epi32(int(span)));
    } else {
        __m512i above = _mm512_sub_epi64(_mm512_loadu_si512(keys), _mm512_set1_epi64(i64(from)));
        return _mm512_cmple_epu64_mask(above, _mm512_set1_epi64(i64(span)));
    }
#elif defined(__AVX2__)
    auto load = [&](size_t i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + i)); };
    if constexpr (sizeof(K) == 4) {
        __m256i above = _mm256_sub_epi32(load(0), _mm256_set1_epi32(int(from)));
        __m256i less = _mm256_min_epu32(above, _mm256_set1_epi32(int(span)));
        return u32(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(above, less))));
    } else {
        const __m256i top = _mm256_set1_epi64x(std::numeric_limits<i64>::min());
        __m256i limit = _mm256_xor_si256(_mm256_set1_epi64x(i64(span)), top);
        auto beyond = [&](size_t i) {
            __m256i above = _mm256_sub_epi64(load(i), _mm256_set1_epi64x(i64(from)));
            __m256i out = _mm256_cmpgt_epi64(_mm256_xor_si256(above, top), limit);
            return u32(_mm256_movemask_pd(_mm256_castsi256_pd(out)));
        };
        return 0xFF ^ (beyond(0) | beyond(4) << 4);
    }
#else
    u32 hits = 0;
    for (size_t i = 0; i < LANES; i++) hits |= u32(K(keys[i] - from) <= span) << i;
    return hits;
#endif
}

// Write down those of eight words whose bit is set, and what follows is left to chance.
inline void compress8(u32* to, const u32* from, u32 bits) {
#if defined(__AVX512VL__)
    __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_maskz_compress_epi32(__mmask8(bits), some));
#elif defined(__AVX2__)
    static constexpr auto CHOSEN = [] {  // for all bits, the places of those that are set
        std::array<u64, 256> all{};
        for (u64 bits = 0; bits < 256; bits++)
            for (u64 i = 0, n = 0; i < LANES; i++)
                if (bits >> i & 1) all[bits] |= i << (8 * n++);
        return all;
    }();
    __m256i order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64(CHOSEN[bits])));
    __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(some, order));
#else
    for (; bits; bits &= bits - 1) *to++ = from[__builtin_ctz(bits)];
#endif
}

}  // namespace eddyline
