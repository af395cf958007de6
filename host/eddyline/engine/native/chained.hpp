// Equality with an order of results: each tuple is looked up in the other side's hash table and then
// enters its own. Nothing is sorted, and partners within a batch are found like all others.
#pragma once
#include "batch.hpp"
#include "pool.hpp"
#include "ring.hpp"

namespace eddyline {

// Both sides' tables, and the batch at hand.
class Chained {
public:
    Path path;
    u64 examined = 0;
    explicit Chained(Path&& p) : path(std::move(p)) {}
    virtual ~Chained() = default;
    virtual void prepare(const Batch& batch, Columns* columns, Pool& pool) = 0;
    // Go on with the arrivals from `from` until there are `enough` candidates; returns where it
    // stopped. `partners` gets the place of the arrival and the sequence number of its partner.
    virtual size_t run(const Batch& batch, size_t from, size_t* place,
                       std::vector<std::pair<u32, u64>>& partners, size_t enough) = 0;
    virtual void clear() = 0;
    virtual size_t bytes() const = 0;
};

template <class K> class ChainedOf final : public Chained {
    static constexpr size_t AHEAD = 16;
    Ring<K> rings_[2];
    std::vector<K> keys_[2];
    std::vector<u8> usable_[2];

public:
    using Chained::Chained;

    void prepare(const Batch& batch, Columns* columns, Pool& pool) override {
        pool.run(2, [&](size_t side) {
            const Layout& layout = columns[side].layout;
            const u8* records = batch.records[side].data();
            size_t n = batch.size(side);
            keys_[side].resize(n + 2 * AHEAD);
            usable_[side].resize(n);
            for (size_t i = 0; i < n; i++, records += layout.stride) {
                usable_[side][i] = (Layout::valid(records) & path.needed[side]) == path.needed[side];
                keys_[side][i] = K(path.group_key(layout, records, side));
            }
            rings_[side].reserve(n, columns[side].oldest());
        });
    }

    size_t run(const Batch& batch, size_t from, size_t* place,
               std::vector<std::pair<u32, u64>>& partners, size_t enough) override {
        const std::vector<u8>& sides = batch.sides;
        u64 steps = 0;
        size_t i = from;
        for (; i < sides.size() && partners.size() < enough; i++) {
            int side = sides[i];
            size_t mine = place[side]++;
            // Of this side's tuples: fetch the heads first, then what they point at.
            K soon = keys_[side][mine + AHEAD];
            rings_[1 - side].prefetch(soon);
            rings_[side].prefetch(soon);
            rings_[1 - side].prefetch_slot(keys_[side][mine + AHEAD / 2]);
            if (!usable_[side][mine]) {
                rings_[side].skip();
                continue;
            }
            K key = keys_[side][mine];
            steps += rings_[1 - side].find(key, batch.start[side][mine], [&](u64 partner) {
                partners.push_back({u32(i), partner});
            });
            rings_[side].insert(key);
        }
        examined += steps;
        return i;
    }

    void clear() override {
        for (auto& ring : rings_) ring.clear();
    }
    size_t bytes() const override { return rings_[0].bytes() + rings_[1].bytes(); }
};

}  // namespace eddyline
