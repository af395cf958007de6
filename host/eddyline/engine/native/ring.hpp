// A hash table whose tuples expire by themselves.
#pragma once
#include "items.hpp"

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
    // The compiler takes what only fetches for something without effect, and leaves out calls of it.
    [[gnu::always_inline]] void prefetch(K key) const { __builtin_prefetch(&heads_[home(key)], 1); }
    [[gnu::always_inline]] void prefetch_slot(K key) const { __builtin_prefetch(&slots_[heads_[home(key)] & mask()]); }

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
    [[gnu::always_inline]] void prefetch_at(u32 at) const { __builtin_prefetch(&slots_[at & mask()]); }
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

}  // namespace eddyline
