// Linked List Adaptive Table (PanJoin, section III-B2): arrays of one size, an overfull partition
// takes a further one.
#pragma once
#include "structure.hpp"
#include "vector.hpp"

namespace eddyline {

constexpr u32 NONE = ~u32(0);

template <class K> class Llat {
    size_t width_;
    SparseArray<K> a_, b_;  // behind the last entry there is room to read sixteen
    SparseArray<u32> ref_;
    std::vector<u32> next_, count_;
    u32 free_ = NONE;       // entries that were given back, chained
    bool intervals_;

public:
    Llat(size_t entries, size_t width, bool intervals) : width_(width), intervals_(intervals) {
        next_.reserve(entries);
        count_.reserve(entries);
        size_t room = entries * width + PARTITION;
        a_.reserve(room);
        ref_.reserve(room);
        if (intervals) b_.reserve(room);
        resize(0);
    }

    // Take an unused entry. There is room for as many as were asked for, and more on demand.
    u32 take() {
        if (free_ != NONE) {
            u32 entry = free_;
            free_ = next_[entry];
            next_[entry] = NONE;
            return entry;
        }
        u32 entry = next_.size();
        next_.push_back(NONE);
        count_.push_back(0);
        resize(next_.size());
        return entry;
    }

    // Empty a partition: its first entry stays, the others are taken again.
    void empty(u32 first) {
        for (u32 entry = first; entry != NONE;) {
            u32 next = next_[entry];
            count_[entry] = 0;
            next_[entry] = entry == first ? NONE : free_;
            if (entry != first) free_ = entry;
            entry = next;
        }
    }

    size_t width() const { return width_; }
    size_t entries() const { return next_.size(); }
    u32 next(u32 entry) const { return next_[entry]; }
    u32 count(u32 entry) const { return count_[entry]; }
    const K* a(u32 entry) const { return &a_[entry * width_]; }
    const K* b(u32 entry) const { return intervals_ ? &b_[entry * width_] : a(entry); }
    const u32* ref(u32 entry) const { return &ref_[entry * width_]; }
    size_t bytes() const {
        return (a_.capacity() + b_.capacity()) * sizeof(K) +
               (ref_.capacity() + next_.capacity() + count_.capacity()) * 4;
    }

    // Append to the last entry of a partition and return what is the last one now.
    u32 append(u32 last, K a, K b, u32 ref) {
        if (count_[last] == width_) {
            u32 more = take();
            next_[last] = more;
            last = more;
        }
        size_t at = last * width_ + count_[last]++;
        a_[at] = a;
        if (intervals_) b_[at] = b;
        ref_[at] = ref;
        return last;
    }

    // Copy the refs of what overlaps [a, b] in one entry.
    void scan(u32 entry, K a, K b, std::vector<u32>& out) const {
        size_t n = count_[entry];
        const K *low = this->a(entry), *high = this->b(entry);
        const u32* ref = this->ref(entry);
        for (size_t i = 0; i < n; i += PARTITION) {
            u32 hits = overlap16(low + i, high + i, a, b);
            if (n - i < PARTITION) hits &= (u32(1) << (n - i)) - 1;
            if (!hits) continue;
            u32 some[PARTITION];
            u32* end = compress16(some, ref + i, hits);
            out.insert(out.end(), some, end);
        }
    }

private:
    void resize(size_t entries) {
        size_t room = entries * width_ + PARTITION;
        a_.resize(room);
        ref_.resize(room);
        if (intervals_) b_.resize(room);
    }
};

}  // namespace eddyline
