// Linked List Adaptive Table (PanJoin, section III-B2): arrays of one size, an overfull partition
// takes a further one.
#pragma once
#include "structure.hpp"

namespace eddyline {

constexpr u32 NONE = ~u32(0);

template <class K> class Llat {
    size_t width_;
    std::vector<K> a_, b_;
    std::vector<u32> ref_, next_, count_;
    bool intervals_;

public:
    Llat(size_t entries, size_t width, bool intervals) : width_(width), intervals_(intervals) {
        next_.reserve(entries);
        count_.reserve(entries);
        a_.reserve(entries * width);
        ref_.reserve(entries * width);
        if (intervals) b_.reserve(entries * width);
    }

    // Take an unused entry. There is room for as many as were asked for, and more on demand.
    u32 take() {
        u32 entry = next_.size();
        next_.push_back(NONE);
        count_.push_back(0);
        a_.resize(a_.size() + width_);
        ref_.resize(ref_.size() + width_);
        if (intervals_) b_.resize(b_.size() + width_);
        return entry;
    }

    size_t width() const { return width_; }
    size_t entries() const { return next_.size(); }
    u32 next(u32 entry) const { return next_[entry]; }
    u32 count(u32 entry) const { return count_[entry]; }
    const K* a(u32 entry) const { return &a_[entry * width_]; }
    const K* b(u32 entry) const { return intervals_ ? &b_[entry * width_] : a(entry); }
    const u32* ref(u32 entry) const { return &ref_[entry * width_]; }
    void empty(u32 entry) { count_[entry] = 0; next_[entry] = NONE; }
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
        size_t at = out.size();
        out.resize(at + n);
        u32* to = out.data();
        for (size_t i = 0; i < n; i++) {
            to[at] = ref[i];
            at += (low[i] <= b) & (high[i] >= a);
        }
        out.resize(at);
    }
};

}  // namespace eddyline
