// What an index holds, and what is looked up in it: intervals of keys with the tuple they stand for.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

#include "memory.hpp"

namespace eddyline {

using u8 = uint8_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i64 = int64_t;

// A closed interval [a, b] of keys. A value is the interval [v, v]; a band around a value is
// [lo, hi]. Two tuples may match where their intervals overlap, so the same items are stored by
// one side and looked up by the other. `ref` are the low 32 bits of a sequence number, or, of
// items that are looked up, a place in the batch.
template <class K> struct Items {
    Array<K> a, b;
    Array<u32> ref;

    size_t size() const { return a.size(); }
    void clear() { a.clear(); b.clear(); ref.clear(); }
    void reserve(size_t n) { a.reserve(n); b.reserve(n); ref.reserve(n); }
    void resize(size_t n) { a.resize(n); b.resize(n); ref.resize(n); }
    void push(K low, K high, u32 r) { a.push_back(low); b.push_back(high); ref.push_back(r); }
};

// Sort by (a, b): by least significant digits of 11 bits. Digits that are the same everywhere are
// passed over.
template <class K> class Sorter {
    struct Entry { K a; u32 place; };
    Array<Entry> one_, two_;
    Items<K> whole_;

    template <class Less> void small(Items<K>& items, Less less) {
        std::sort(one_.begin(), one_.end(), less);
        apply(items, one_);
    }

    void apply(Items<K>& items, const Array<Entry>& order) {
        size_t n = order.size();
        whole_.resize(n);
        for (size_t i = 0; i < n; i++) {
            whole_.a[i] = order[i].a;
            whole_.b[i] = items.b[order[i].place];
            whole_.ref[i] = items.ref[order[i].place];
        }
        std::swap(items, whole_);
    }

public:
    void sort(Items<K>& items) {
        size_t n = items.size();
        if (n < 2) return;
        one_.resize(n);
        for (size_t i = 0; i < n; i++) one_[i] = {items.a[i], u32(i)};
        if (n < 256) {
            small(items, [&](const Entry& x, const Entry& y) {
                if (x.a != y.a) return x.a < y.a;
                return items.b[x.place] < items.b[y.place];
            });
            return;
        }
        constexpr int BITS = 11, DIGITS = (8 * sizeof(K) + BITS - 1) / BITS;
        constexpr size_t RADIX = size_t(1) << BITS;
        static thread_local std::vector<u32> counts;
        counts.assign(DIGITS * RADIX, 0);
        for (size_t i = 0; i < n; i++)
            for (int d = 0; d < DIGITS; d++)
                counts[d * RADIX + ((u64(items.a[i]) >> (d * BITS)) & (RADIX - 1))]++;
        two_.resize(n);
        for (int d = 0; d < DIGITS; d++) {
            u32* count = &counts[d * RADIX];
            if (count[(u64(items.a[0]) >> (d * BITS)) & (RADIX - 1)] == n) continue;
            u32 sum = 0;
            for (size_t i = 0; i < RADIX; i++) { u32 c = count[i]; count[i] = sum; sum += c; }
            for (const Entry& e : one_) two_[count[(u64(e.a) >> (d * BITS)) & (RADIX - 1)]++] = e;
            std::swap(one_, two_);
        }
        apply(items, one_);
        // Ties of a are rare, and bounds of one attribute then mostly tie as well.
        for (size_t i = 0; i < n;) {
            size_t j = i + 1;
            bool sorted = true;
            for (; j < n && items.a[j] == items.a[i]; j++) sorted &= items.b[j - 1] <= items.b[j];
            if (!sorted) sort_ties(items, i, j);
            i = j;
        }
    }

private:
    void sort_ties(Items<K>& items, size_t from, size_t to) {
        std::vector<std::pair<K, u32>> run(to - from);
        for (size_t i = from; i < to; i++) run[i - from] = {items.b[i], items.ref[i]};
        std::stable_sort(run.begin(), run.end(),
                         [](const auto& x, const auto& y) { return x.first < y.first; });
        for (size_t i = from; i < to; i++) std::tie(items.b[i], items.ref[i]) = run[i - from];
    }
};

// First place in a short sorted array at which `before` no longer holds, without a branch to guess.
template <class T, class Before> inline size_t partition_point(const T* from, size_t n, Before before) {
    const T* at = from;
    while (n > 1) {
        size_t half = n / 2;
        at += half & -size_t(before(at[half - 1]));
        n -= half;
    }
    return at - from + (n && before(*at));
}

// Some results of one item that was looked up: `begin` to `end` in an array of refs.
struct Record { u32 probe, begin, end; };

// What a lookup found: records that point into the structure's own array of refs, and others that
// point into copies.
struct Found {
    std::vector<Record> ranges, copies;
    std::vector<u32> copied;
    u64 examined = 0;

    void clear() { ranges.clear(); copies.clear(); copied.clear(); examined = 0; }
    void range(u32 probe, size_t begin, size_t end) {
        ranges.push_back({probe, u32(begin), u32(end)});
    }
};

}  // namespace eddyline
