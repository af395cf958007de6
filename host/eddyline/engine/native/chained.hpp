// Equality with an order of results: each tuple is looked up in the other side's hash table and then
// enters its own. Nothing is sorted, and partners within a batch are found like all others.
#pragma once
#include "meeting.hpp"
#include "pool.hpp"

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
    Meeting<K> tables_;

public:
    using Chained::Chained;

    void prepare(const Batch& batch, Columns* columns, Pool& pool) override {
        tables_.load(batch, columns, path, pool, true);
    }

    size_t run(const Batch& batch, size_t from, size_t* place,
               std::vector<std::pair<u32, u64>>& partners, size_t enough) override {
        const std::vector<u8>& sides = batch.sides;
        u64 steps = 0;
        size_t i = from;
        for (; i < sides.size() && partners.size() < enough; i++) {
            int side = sides[i];
            size_t mine = place[side]++;
            steps += tables_.meet(side, mine, batch.start[side][mine], [&](u64 partner) {
                partners.push_back({u32(i), partner});
            });
        }
        examined += steps;
        return i;
    }

    void clear() override { tables_.rings.clear(); }
    size_t bytes() const override { return tables_.rings.bytes(); }
};

}  // namespace eddyline
