// Hash index for equality: a ring of tuples in order of arrival, chained by hash from new to old.
// A chain ends at the first tuple that has left the window, so nothing is ever deleted.
#pragma once
#include "structure.hpp"

namespace eddyline {

template <class K> class HashRing : public Structure<K> {
    static constexpr size_t AHEAD = 12;  // lookups whose memory is fetched in advance
    struct Slot { K key; u32 next, ref; };  // side by side: a step along a chain is one cache line
    Array<u32> heads_;
    Array<Slot> slots_;
    // Tuples are numbered from 1; a place is a number modulo the ring, a link its low 32 bits.
    u64 begin_ = 1, end_ = 1, swept_ = 1;
    int shift_ = 64;

    // Consecutive keys hardly meet, as with the golden ratio. This multiplier was searched for among
    // others of that kind so that keys that are any power of two apart, as integers are that came
    // as floats, do not meet often either: fewer than three on average, not up to fourteen.
    size_t home(K key) const { return (u64(key) * 0xBC1FE5C9CB58B8B7ull) >> shift_; }
    size_t mask() const { return slots_.size() - 1; }

public:
    explicit HashRing(size_t capacity) { grow(std::max<size_t>(capacity, 16)); }

    bool sorted() const override { return false; }
    bool recycles() const override { return true; }

    void insert(const Items<K>& batch) override {
        size_t m = batch.size();
        if (end_ - begin_ + m > slots_.size()) grow(end_ - begin_ + m);
        if (end_ + m - swept_ > u64(1) << 31) sweep();
        for (size_t i = 0; i < m; i++) {
            if (i + AHEAD < m) __builtin_prefetch(&heads_[home(batch.a[i + AHEAD])], 1);
            append(batch.a[i], batch.ref[i]);
        }
    }

    void probe(const Items<K>& batch, size_t from, size_t to, Found& found) const override {
        u32 end = u32(end_);
        u64 live = end_ - begin_, steps = 0;
        size_t m = mask();
        for (size_t i = from; i < to; i++) {
            if (i + 2 * AHEAD < to) __builtin_prefetch(&heads_[home(batch.a[i + 2 * AHEAD])]);
            if (i + AHEAD < to) {
                u32 soon = heads_[home(batch.a[i + AHEAD])];
                if (u32(end - soon) <= live) __builtin_prefetch(&slots_[soon & m]);
            }
            size_t first = found.copied.size();
            for (u32 at = heads_[home(batch.a[i])]; u32(end - at) <= live;) {
                const Slot& slot = slots_[at & m];
                steps++;
                if (slot.key == batch.a[i]) found.copied.push_back(slot.ref);
                at = slot.next;
            }
            if (found.copied.size() > first)
                found.copies.push_back({batch.ref[i], u32(first), u32(found.copied.size())});
        }
        found.examined += steps;
    }

    void expire(u64 sequence) override {
        while (begin_ < end_ && int32_t(slots_[begin_ & mask()].ref - u32(sequence)) < 0) begin_++;
    }

    size_t size() const override { return end_ - begin_; }
    size_t bytes() const override {
        return 4 * heads_.capacity() + sizeof(Slot) * slots_.capacity();
    }
    void entries(Items<K>& all) const override {
        for (u64 at = begin_; at < end_; at++) {
            const Slot& slot = slots_[at & mask()];
            all.push(slot.key, slot.key, slot.ref);
        }
    }

private:
    void append(K key, u32 ref) {
        u32& head = heads_[home(key)];
        slots_[end_ & mask()] = {key, head, ref};
        head = u32(end_++);
    }

    void grow(size_t tuples) {
        Items<K> all;
        if (slots_.size()) entries(all);
        size_t places = 16;
        while (places < tuples) places *= 2;
        slots_.assign(places, {});
        heads_.assign(2 * places, 0);
        shift_ = 63 - __builtin_ctzll(places);
        begin_ = end_ = swept_ = 1;
        for (size_t i = 0; i < all.size(); i++) append(all.a[i], all.ref[i]);
    }

    // Links are compared modulo 2^32: those that point far into the past must not come round.
    void sweep() {
        u64 live = end_ - begin_;
        for (u32& head : heads_)
            if (u32(u32(end_) - head) > live) head = u32(begin_ - 1);
        swept_ = end_;
    }
};

}  // namespace eddyline
