// Equality in order of arrival: each tuple is looked up in the other side's hash table and then
// enters its own. Nothing is sorted, and partners within a batch are found like all others.
#pragma once
#include "lookup.hpp"
#include "vector.hpp"

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

// Pairs that were found without order: places of one side in the batch, and low bits of the other's
// sequence numbers. Behind them there is room to write sixteen. Threads that write to neighbours must
// not share a cache line.
struct alignas(128) Steps {
    int side = 0;
    size_t n = 0;
    Array<u32> place, ref;

    void clear(int s) { side = s; n = 0; }
    void room(size_t more) {
        if (n + more + PARTITION <= place.size()) return;
        place.resize(2 * (n + more) + PARTITION);
        ref.resize(place.size());
    }
    void add(u32 who, u32 partner) {
        room(1);
        place[n] = who;
        ref[n++] = partner;
    }
    void add16(u32 who, const u32* partners, u32 bits) {
        for (size_t i = 0; i < PARTITION; i++) place[n + i] = who;
        n = compress16(&ref[n], partners, bits) - ref.data();
    }
};

// Both sides' tables, and the batch at hand. Where results are in order, `run` looks a tuple up and
// stores it before the next. Else all are stored by `begin`, and `walk` leaves out partners that came
// later; then threads can share the work.
class ByArrival {
protected:
    struct Task { int side; size_t from, to; };
    std::vector<Task> tasks_;

    void share_out(const Batch& batch, size_t threads) {
        tasks_.clear();
        size_t parts = batch.sides.size() < 1024 ? 1 : threads;
        for (int side : {0, 1})
            for (size_t part = 0; part < parts; part++)
                tasks_.push_back({side, batch.size(side) * part / parts, batch.size(side) * (part + 1) / parts});
        if (found.size() < tasks_.size()) found.resize(tasks_.size());
        for (size_t t = 0; t < found.size(); t++) found[t].clear(0);
    }

public:
    Path path;
    u64 examined = 0;
    std::vector<Steps> found;  // what `walk` has found
    explicit ByArrival(Path&& p) : path(std::move(p)) {}
    virtual ~ByArrival() = default;
    virtual void prepare(const Batch& batch, Columns* columns, Pool& pool) = 0;
    // Go on with the arrivals from `from` until there are `enough` candidates; returns where it
    // stopped. `partners` gets the place of the arrival and the sequence number of its partner.
    virtual size_t run(const std::vector<u8>& sides, size_t from, size_t* place, const std::vector<u64>* start,
                       std::vector<std::pair<u32, u64>>& partners, size_t enough) = 0;
    virtual void begin(const Batch& batch, Pool& pool) = 0;
    // Find about `enough` more for every thread; returns whether that was all.
    virtual bool walk(const Batch& batch, size_t enough, Pool& pool) = 0;
    // Another structure that finds many partners faster, with all tuples; or none.
    virtual std::unique_ptr<Lookup> sorted(const Columns*) const { return nullptr; }
    virtual void clear() = 0;
    virtual size_t bytes() const = 0;
};

template <class K> class ByArrivalOf final : public ByArrival {
    static constexpr size_t AHEAD = 16;
    struct Walk { K key; u32 place, at, start, size; };
    Ring<K> rings_[2];
    std::vector<std::vector<Walk>> walks_;  // of each task
    std::vector<K> keys_[2];
    std::vector<u8> usable_[2];

public:
    using ByArrival::ByArrival;

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

    size_t run(const std::vector<u8>& sides, size_t from, size_t* place, const std::vector<u64>* start,
               std::vector<std::pair<u32, u64>>& partners, size_t enough) override {
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
            steps += rings_[1 - side].find(key, start[side][mine], [&](u64 partner) {
                partners.push_back({u32(i), partner});
            });
            rings_[side].insert(key);
        }
        examined += steps;
        return i;
    }

    void begin(const Batch& batch, Pool& pool) override {
        pool.run(2, [&](size_t side) {
            for (size_t i = 0; i < batch.size(side); i++) {
                rings_[side].prefetch(keys_[side][i + AHEAD]);
                if (usable_[side][i]) rings_[side].insert(keys_[side][i]);
                else rings_[side].skip();
            }
        });
        share_out(batch, pool.size());
        if (walks_.size() < tasks_.size()) walks_.resize(tasks_.size());
        pool.run(tasks_.size(), [&](size_t t) {
            auto [side, from, to] = tasks_[t];
            const Ring<K>& ring = rings_[1 - side];
            walks_[t].resize(to - from);
            size_t kept = 0;
            for (size_t i = from; i < to; i++) {
                ring.prefetch(keys_[side][i + AHEAD]);
                K key = keys_[side][i];
                u64 start = batch.start[side][i];
                u32 at = ring.head(key);
                walks_[t][kept] = {key, u32(i), at, u32(start), u32(batch.stop[side][i] - start)};
                kept += usable_[side][i] & Ring<K>::alive(at, u32(start));
            }
            walks_[t].resize(kept);
        });
    }

    // All of the batch take a step along their chains at a time: memory is fetched for many at once.
    bool walk(const Batch&, size_t enough, Pool& pool) override {
        std::vector<u64> steps(tasks_.size());
        pool.run(tasks_.size(), [&](size_t t) {
            auto& walks = walks_[t];
            int side = tasks_[t].side;
            const Ring<K>& ring = rings_[1 - side];
            Steps& out = found[t];
            out.clear(side);
            // Those that go on are moved to the front, over those that have been read.
            while (walks.size() && out.n < enough) {
                size_t kept = 0, n = walks.size();
                out.room(n);
                for (size_t i = 0; i < n; i++) {
                    if (i + AHEAD < n) ring.prefetch_at(walks[i + AHEAD].at);
                    Walk walk = walks[i];
                    const auto& slot = ring.slot(walk.at);
                    out.place[out.n] = walk.place;
                    out.ref[out.n] = walk.at;
                    out.n += (slot.key == walk.key) & (u32(walk.at - walk.start) < walk.size);
                    walk.at = slot.next;
                    walks[kept] = walk;
                    kept += Ring<K>::alive(walk.at, walk.start);
                }
                steps[t] += n;
                walks.resize(kept);
            }
        });
        for (u64 some : steps) examined += some;
        return std::all_of(walks_.begin(), walks_.end(), [](const auto& walks) { return walks.empty(); });
    }

    void clear() override {
        for (auto& ring : rings_) ring.clear();
        walks_.clear();
    }
    size_t bytes() const override { return rings_[0].bytes() + rings_[1].bytes(); }
};

}  // namespace eddyline
