// Equality in order of arrival: each tuple is looked up in the other side's hash table and then
// enters its own. Nothing is sorted, and partners within a batch are found like all others.
#pragma once
#include "batch.hpp"

namespace eddyline {

// The tuples of one side, each at the place of its sequence number in a ring, chained by hash from
// new to old. A chain ends where the window does, so nothing is ever deleted.
template <class K> class Ring {
public:
    struct Slot { K key; u32 next; };

private:
    std::vector<u32> heads_;
    std::vector<Slot> slots_;
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
        std::vector<Slot> old(places);
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

// Both sides' rings, and the keys of the batch at hand.
class ByArrival {
public:
    Path path;
    u64 examined = 0;
    explicit ByArrival(Path&& p) : path(std::move(p)) {}
    virtual ~ByArrival() = default;
    virtual void prepare(const Batch& batch, Columns* columns) = 0;
    // Go on with the arrivals from `from` until there are `enough` candidates; returns where it
    // stopped. `found` gets the place of the arrival and the sequence number of its partner.
    virtual size_t run(const std::vector<u8>& sides, size_t from, size_t* place, const std::vector<u64>* start,
                       std::vector<std::pair<u32, u64>>& found, size_t enough) = 0;
    // The same without order. First all arrivals of the batch begin their walk along the chains, then
    // all take a step at a time: memory is fetched for many of them at once. Returns whether all
    // have ended. What is found are the low bits of sequence numbers.
    virtual void begin_walks(const Batch& batch) = 0;
    virtual bool walk(std::vector<std::pair<u32, u32>>& found, size_t enough) = 0;
    virtual void clear() = 0;
    virtual size_t bytes() const = 0;
};

template <class K> class ByArrivalOf final : public ByArrival {
    static constexpr size_t AHEAD = 16;
    struct Walk { K key; u32 place, at, start; };
    Ring<K> rings_[2];
    std::vector<Walk> walks_[2];
    std::vector<K> keys_[2];
    std::vector<u8> usable_[2];

public:
    using ByArrival::ByArrival;

    void prepare(const Batch& batch, Columns* columns) override {
        for (int side : {0, 1})
            prepare(side, batch.records[side].data(), batch.size(side), columns[side].layout, columns[side].oldest());
    }

    void prepare(int side, const u8* records, size_t n, const Layout& layout, u64 oldest) {
        keys_[side].resize(n + 2 * AHEAD);
        usable_[side].resize(n);
        for (size_t i = 0; i < n; i++, records += layout.stride) {
            usable_[side][i] = (Layout::valid(records) & path.needed[side]) == path.needed[side];
            keys_[side][i] = K(path.group_key(layout, records, side));
        }
        rings_[side].reserve(n, oldest);
    }

    size_t run(const std::vector<u8>& sides, size_t from, size_t* place, const std::vector<u64>* start,
               std::vector<std::pair<u32, u64>>& found, size_t enough) override {
        u64 steps = 0;
        size_t i = from;
        for (; i < sides.size() && found.size() < enough; i++) {
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
            steps += rings_[1 - side].find(key, start[side][mine], [&](u64 partner) {
                found.push_back({u32(i), partner});
            });
            rings_[side].insert(key);
        }
        examined += steps;
        return i;
    }

    void begin_walks(const Batch& batch) override {
        for (auto& some : walks_) some.clear();
        size_t place[2] = {0, 0};
        for (size_t i = 0; i < batch.sides.size(); i++) {
            int side = batch.sides[i];
            size_t mine = place[side]++;
            K soon = keys_[side][mine + AHEAD];
            rings_[1 - side].prefetch(soon);
            rings_[side].prefetch(soon);
            if (!usable_[side][mine]) {
                rings_[side].skip();
                continue;
            }
            K key = keys_[side][mine];
            u32 at = rings_[1 - side].head(key), start = u32(batch.start[side][mine]);
            if (Ring<K>::alive(at, start)) walks_[side].push_back({key, u32(mine), at, start});
            rings_[side].insert(key);
        }
    }

    bool walk(std::vector<std::pair<u32, u32>>& found, size_t enough) override {
        for (int side : {0, 1}) {
            auto& walks = walks_[side];
            const Ring<K>& ring = rings_[1 - side];
            // Those that go on are moved to the front, over those that have been read.
            while (walks.size() && found.size() < enough) {
                size_t kept = 0, n = walks.size();
                for (size_t i = 0; i < n; i++) {
                    if (i + AHEAD < n) ring.prefetch_at(walks[i + AHEAD].at);
                    Walk walk = walks[i];
                    const auto& slot = ring.slot(walk.at);
                    if (slot.key == walk.key) found.push_back({walk.place << 1 | side, walk.at});
                    walk.at = slot.next;
                    walks[kept] = walk;
                    kept += Ring<K>::alive(walk.at, walk.start);
                }
                examined += n;
                walks.resize(kept);
            }
        }
        return walks_[0].empty() && walks_[1].empty();
    }

    void clear() override { for (auto& ring : rings_) ring.clear(); }
    size_t bytes() const override { return rings_[0].bytes() + rings_[1].bytes(); }
};

}  // namespace eddyline
