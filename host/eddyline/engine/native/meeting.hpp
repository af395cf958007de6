// Both sides' hash tables, and the keys of the batch at hand.
#pragma once
#include "batch.hpp"
#include "pool.hpp"
#include "ring.hpp"

namespace eddyline {

template <class K> struct Meeting {
    static constexpr size_t AHEAD = 16;
    Rings<K> rings;
    std::vector<K> keys[2];  // of the batch, and what is fetched behind it
    std::vector<u8> usable[2];

    // Take over the keys of both sides' tuples, and make room for them.
    void load(const Batch& batch, const Columns* columns, const Path& path, Pool& pool, bool many) {
        pool.run(2, [&](size_t side) { load(batch, columns[side].layout, path, int(side)); }, many);
        size_t more[2] = {batch.size(0), batch.size(1)};
        rings.reserve(more, columns);
    }
    void load(const Batch& batch, const Layout& layout, const Path& path, int side) {
        const u8* records = batch.records[side].data();
        size_t n = batch.size(side);
        keys[side].resize(n + AHEAD);
        usable[side].resize(n);
        for (size_t i = 0; i < n; i++, records += layout.stride) {
            usable[side][i] = (Layout::valid(records) & path.needed[side]) == path.needed[side];
            keys[side][i] = K(path.group_key(layout, records, side));
        }
    }

    // Look a tuple up in the other side's table, and store it in its own. Returns the steps.
    template <class Sink> u32 meet(int side, size_t mine, u64 start, Sink found) {
        // Of this side's tuples: fetch the heads first, then what they point at.
        rings.prefetch(keys[side][mine + AHEAD]);
        rings.prefetch_slot(1 - side, keys[side][mine + AHEAD / 2]);
        if (!usable[side][mine]) {
            rings.skip(side);
            return 0;
        }
        K key = keys[side][mine];
        u32 steps = rings.find(1 - side, key, start, found);
        rings.insert(side, key);
        return steps;
    }
};

}  // namespace eddyline
