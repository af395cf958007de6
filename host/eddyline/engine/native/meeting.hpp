// Both sides' hash tables, and the keys of the batch at hand.
#pragma once
#include "batch.hpp"
#include "ring.hpp"

namespace eddyline {

template <class K> struct Meeting {
    static constexpr size_t AHEAD = 16;
    Ring<K> rings[2];
    std::vector<K> keys[2];  // of the batch, and what is fetched behind it
    std::vector<u8> usable[2];

    // Take over the keys of a side's tuples, and make room for them.
    void load(const Batch& batch, const Columns& columns, const Path& path, int side) {
        const Layout& layout = columns.layout;
        const u8* records = batch.records[side].data();
        size_t n = batch.size(side);
        keys[side].resize(n + AHEAD);
        usable[side].resize(n);
        for (size_t i = 0; i < n; i++, records += layout.stride) {
            usable[side][i] = (Layout::valid(records) & path.needed[side]) == path.needed[side];
            keys[side][i] = K(path.group_key(layout, records, side));
        }
        rings[side].reserve(n, columns.oldest());
    }

    // Look a tuple up in the other side's table, and store it in its own. Returns the steps.
    template <class Sink> u32 meet(int side, size_t mine, u64 start, Sink found) {
        // Of this side's tuples: fetch the heads first, then what they point at.
        K soon = keys[side][mine + AHEAD];
        rings[1 - side].prefetch(soon);
        rings[side].prefetch(soon);
        rings[1 - side].prefetch_slot(keys[side][mine + AHEAD / 2]);
        if (!usable[side][mine]) {
            rings[side].skip();
            return 0;
        }
        K key = keys[side][mine];
        u32 steps = rings[1 - side].find(key, start, found);
        rings[side].insert(key);
        return steps;
    }
};

}  // namespace eddyline
