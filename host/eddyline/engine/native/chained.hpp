// Equality in order of arrival: each tuple is looked up in the other side's hash table and then
// enters its own. Nothing is sorted, and partners within a batch are found like all others.
#pragma once
#include "batch.hpp"
#include "pool.hpp"

namespace eddyline {

// The tuples of one side, each at the place of its sequence number in a ring, chained by hash from
// new to old. A chain ends where the window does, so nothing is ever deleted.
template <class K> class Ring {
public:
    struct Slot { K key; u32 next; };

private:
    Array<u32> heads_;
    Array<Slot> slots_;
    int shift_ = 64;
    u64 oldest_ = 0, count_ = 0, swept_ = 0;  // sequence numbers

    size_t home(K key) const { return (u64(key) * 0x9E3779B97F4A7C15ull) >> shift_; }
    size_t mask() const { return slots_.size() - 1; }

public:
    Ring() { clear(); }

    void clear() {
        slots_.assign(16, {});
        heads_.assign(16, u32(-1));
        shift_ = 60;
        oldest_ = count_ = swept_ = 0;
    }

    // Make room for more tuples; those below `oldest` are not asked for any more.
    void reserve(size_t more, u64 oldest) {
        oldest_ = std::max(oldest_, oldest);
        if (count_ - oldest_ + more > slots_.size()) grow(count_ - oldest_ + more);
        // Links are compared modulo 2^32: what points far into the past must not come round.
        if (count_ + more - swept_ > u64(1) << 31) sweep();
    }
    void prefetch(K key) const { __builtin_prefetch(&heads_[home(key)], 1); }
    void prefetch_slot(K key) const { __builtin_prefetch(&slots_[heads_[home(key)] & mask()]); }

    void insert(K key) {
        u32& head = heads_[home(key)];
        slots_[count_ & mask()] = {key, head};
        head = u32(count_++);
    }
    // A tuple that matches nothing has a place, too, but is in no chain: it points at itself.
    void skip() {
        slots_[count_ & mask()] = {0, u32(count_)};
        count_++;
    }

    // Call `found` with the sequence numbers from `start` on, newest first. Returns the steps.
    template <class Sink> u32 find(K key, u64 start, Sink found) const {
        u32 age, most = u32(count_ - start), steps = 0;
        u32 now = u32(count_);
        for (u32 at = heads_[home(key)]; (age = now - at) <= most;) {
            const Slot& slot = slots_[at & mask()];
            steps++;
            if (slot.key == key) found(count_ - age);
            at = slot.next;
        }
        return steps;
    }
    // The newest tuple of a key's chain, and the tuple behind one; see `alive`.
    u32 head(K key) const { return heads_[home(key)]; }
    const Slot& slot(u32 at) const { return slots_[at & mask()]; }
    void prefetch_at(u32 at) const { __builtin_prefetch(&slots_[at & mask()]); }
    // Whether a link points to `start` or beyond, both modulo 2^32.
    static bool alive(u32 at, u32 start) { return int32_t(at - start) >= 0; }

    size_t bytes() const { return 4 * heads_.capacity() + sizeof(Slot) * slots_.capacity(); }

private:
    void grow(size_t tuples) {
        size_t places = slots_.size();
        while (places < tuples) places *= 4;  // growing means to begin again, so not often
        Array<Slot> old(places);
        std::swap(old, slots_);
        // What lies beyond the oldest tuple is never reached.
        heads_.assign(places, u32(oldest_ - 1));
        shift_ = 64 - __builtin_ctzll(places);
        for (u64 at = oldest_; at < count_; at++) {
            const Slot& slot = old[at & (old.size() - 1)];
            if (slot.next == u32(at)) {
                slots_[at & mask()] = slot;
                continue;
            }
            u32& head = heads_[home(slot.key)];
            slots_[at & mask()] = {slot.key, head};
            head = u32(at);
        }
    }
    void sweep() {
        for (u32& head : heads_)
            if (u32(u32(count_) - head) > count_ - oldest_) head = u32(oldest_ - 1);
        swept_ = count_;
    }
};

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
