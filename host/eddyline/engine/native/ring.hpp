// Hash tables of both sides, whose tuples expire by themselves.
#pragma once
#include "columns.hpp"
#include "items.hpp"

namespace eddyline {

// The tuples of each side, each at the place of its sequence number in a ring, chained by hash from
// new to old. A chain ends where the window does, so nothing is ever deleted. The heads of both
// sides' chains lie side by side: a tuple looks at one of them and becomes the other.
template <class K> class Rings {
public:
    struct Slot { K key; u32 next; };

private:
    static constexpr u64 GROWTH = 8;  // growing means to begin again, so not often
    struct Side {
        Array<Slot> slots;
        u64 oldest = 0, count = 0, swept = 0;  // sequence numbers
        Slot& slot(u64 at) { return slots[at & (slots.size() - 1)]; }
    };
    Side sides_[2];
    Array<std::array<u32, 2>> heads_;
    int shift_ = 64;

    size_t home(K key) const { return (u64(key) * 0x9E3779B97F4A7C15ull) >> shift_; }

public:
    Rings() { clear(); }

    void clear() {
        for (Side& side : sides_) side = {};
        rebuild(16, 16);
    }

    // Make room for more tuples; what the windows have let go of is not asked for any more.
    void reserve(const size_t* more, const Columns* columns) {
        size_t places[2];
        bool fits = true;
        for (int s : {0, 1}) {
            Side& side = sides_[s];
            side.oldest = std::max(side.oldest, columns[s].oldest());
            u64 live = side.count - side.oldest + more[s];
            places[s] = side.slots.size();
            if (live <= places[s]) continue;
            // How many tuples a window has is known of those that count them.
            const auto& window = columns[s].window;
            u64 most = window.kind == 0 ? window.size + more[s] : 2 * live;
            places[s] = std::bit_ceil(std::max(live, std::min(GROWTH * live, most)));
            fits = false;
        }
        if (!fits) rebuild(places[0], places[1]);
        // Links are compared modulo 2^32: what points far into the past must not come round.
        for (int s : {0, 1})
            if (sides_[s].count + more[s] - sides_[s].swept > u64(1) << 30) sweep(s);
    }
    // The compiler takes what only fetches for something without effect, and leaves out calls of it.
    [[gnu::always_inline]] void prefetch(K key) const { __builtin_prefetch(&heads_[home(key)], 1); }
    [[gnu::always_inline]] void prefetch_at(int s, u32 at) const { __builtin_prefetch(&slot(s, at)); }
    [[gnu::always_inline]] void prefetch_slot(int s, K key) const { prefetch_at(s, head(s, key)); }

    void insert(int s, K key) {
        u32& head = heads_[home(key)][s];
        sides_[s].slot(sides_[s].count) = {key, head};
        head = u32(sides_[s].count++);
    }
    // A tuple that matches nothing has a place, too, but is in no chain: it points at itself.
    void skip(int s) {
        sides_[s].slot(sides_[s].count) = {0, u32(sides_[s].count)};
        sides_[s].count++;
    }

    // Call `found` with a side's sequence numbers from `start` on, newest first. Returns the steps.
    template <class Sink> u32 find(int s, K key, u64 start, Sink found) const {
        u64 count = sides_[s].count;
        u32 age, most = u32(count - start), steps = 0;
        u32 now = u32(count);
        for (u32 at = head(s, key); (age = now - at) <= most;) {
            const Slot& one = slot(s, at);
            steps++;
            if (one.key == key) found(count - age);
            at = one.next;
        }
        return steps;
    }
    // The newest tuple of a key's chain, and the tuple behind one; see `alive`.
    u32 head(int s, K key) const { return heads_[home(key)][s]; }
    const Slot& slot(int s, u32 at) const { return sides_[s].slots[at & (sides_[s].slots.size() - 1)]; }
    // Whether a link points to `start` or beyond, both modulo 2^32.
    static bool alive(u32 at, u32 start) { return int32_t(at - start) >= 0; }

    size_t bytes() const {
        size_t slots = sides_[0].slots.capacity() + sides_[1].slots.capacity();
        return sizeof heads_[0] * heads_.capacity() + sizeof(Slot) * slots;
    }

private:
    void rebuild(size_t r, size_t s) {
        size_t places[2] = {r, s}, most = std::max(r, s);
        // What lies beyond the oldest tuple is never reached.
        heads_.assign(most, {u32(sides_[0].oldest - 1), u32(sides_[1].oldest - 1)});
        shift_ = 64 - __builtin_ctzll(most);
        for (int i : {0, 1}) {
            Side& side = sides_[i];
            Array<Slot> old(places[i]);
            std::swap(old, side.slots);
            for (u64 at = side.oldest; at < side.count; at++) {
                const Slot& slot = old[at & (old.size() - 1)];
                if (slot.next == u32(at)) {
                    side.slot(at) = slot;
                    continue;
                }
                u32& head = heads_[home(slot.key)][i];
                side.slot(at) = {slot.key, head};
                head = u32(at);
            }
        }
    }
    void sweep(int s) {
        Side& side = sides_[s];
        for (auto& both : heads_)
            if (u32(u32(side.count) - both[s]) > side.count - side.oldest) both[s] = u32(side.oldest - 1);
        side.swept = side.count;
    }
};

}  // namespace eddyline
