// An index over the tuples of a subwindow: insert a batch, probe a batch, seal, expire.
#pragma once
#include <memory>

#include "items.hpp"

namespace eddyline {

enum class Kind { bisort, rap, wib, hash, grid, btree };

template <class K> class Structure {
public:
    virtual ~Structure() = default;
    // Whether batches have to be sorted by (a, b).
    virtual bool sorted() const { return true; }
    // Whether old tuples leave by themselves, so that one subwindow serves for ever.
    virtual bool recycles() const { return false; }
    virtual void insert(const Items<K>& batch) = 0;
    // Look up `batch[from:to]`; what is found of item i is recorded under `batch.ref[i]`.
    virtual void probe(const Items<K>& batch, size_t from, size_t to, Found& found) const = 0;
    // Nothing will be inserted any more.
    virtual void seal() {}
    // Tuples below this sequence number are not asked for any more.
    virtual void expire(u64) {}
    // Where records of `Found::ranges` point into.
    virtual const u32* refs() const { return nullptr; }
    virtual size_t size() const = 0;
    virtual size_t bytes() const = 0;
    // Hand over everything that is held, in any order.
    virtual void entries(Items<K>& all) const = 0;
};

// Find the first place from `hint` on at which `before` no longer holds: doubling steps forward,
// then a binary search between the last two. `before` holds up to some place and not beyond.
template <class Before> size_t rebound(size_t hint, size_t size, Before before) {
    size_t step = 1, low = hint;
    while (low < size && before(low)) {
        size_t next = low + step;
        if (next >= size || !before(next)) {
            size_t high = std::min(next, size);
            low++;
            while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (before(middle)) low = middle + 1; else high = middle;
            }
            return low;
        }
        low = next;
        step *= 2;
    }
    return low;
}

}  // namespace eddyline
