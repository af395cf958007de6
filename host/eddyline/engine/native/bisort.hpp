// BI-Sort (PanJoin, section III-D): a sorted main array with a sampled index, and an insertion
// buffer in front of it.
#pragma once
#include "structure.hpp"
#include "vector.hpp"

namespace eddyline {

// A sorted array, padded so that whole partitions can be read at its end.
template <class K> class Sorted {
    static constexpr K LAST = std::numeric_limits<K>::max();
    Array<K> keys_;
    Array<K> index_;
    size_t size_ = 0;

public:
    const K* data() const { return keys_.data(); }
    K* room(size_t n) {
        if (keys_.size() < n + 2 * PARTITION) keys_.resize(n + 2 * PARTITION);
        return keys_.data();
    }
    void done(size_t n) {
        size_ = n;
        std::fill(keys_.begin() + n, keys_.begin() + n + 2 * PARTITION, LAST);
        size_t count = partitions();
        index_.assign(count + PARTITION + 1, LAST);
        for (size_t i = 0; i < count; i++) index_[i] = keys_[i * PARTITION];
    }
    size_t partitions() const { return (size_ + PARTITION - 1) / PARTITION; }
    size_t bytes() const { return (keys_.capacity() + index_.capacity()) * sizeof(K); }
    void shrink() { keys_.shrink_to_fit(); index_.shrink_to_fit(); }

    // Set `hint`, the partition from which to look, to the number of those that begin below x, and
    // fetch the last of them. Mostly it is one of the next few.
    void advance(K x, size_t& hint) const {
        const K* index = index_.data();
        size_t at = hint && index[hint - 1] >= x ? 0 : hint;
        at += below16(index + at, x);  // not beyond the end: behind it are the largest keys
        if (index[at] < x) at = rebound(at, partitions(), [&](size_t i) { return index[i] < x; });
        hint = at;
        __builtin_prefetch(keys_.data() + (at - (at > 0)) * PARTITION);
    }
    // Number of keys below x, from what `advance` has found.
    size_t below(K x, size_t hint) const { return hint ? (hint - 1) * PARTITION + under(hint - 1, x) : 0; }
    // Number of keys up to x; looks no further than needed from the partition of a smaller key.
    size_t up_to(K x, size_t hint) const {
        if (x == LAST) return size_;
        if (index_[hint] <= x) advance(x + 1, hint);
        return below(x + 1, hint);
    }

private:
    u32 under(size_t partition, K x) const { return below16(keys_.data() + partition * PARTITION, x); }
};

template <class K> class BiSort : public Structure<K> {
    static constexpr size_t AHEAD = 8;
    // By (a, b). Where a tuple is a value, b is a, and kept once.
    Sorted<K> low_, high_, next_low_, next_high_;
    Array<u32> refs_, next_refs_;
    size_t size_ = 0, limit_;
    bool intervals_, complement_;
    // Bounds of one attribute rise together; those of two need not. Then it is known how far each
    // partition reaches, each sixteen of these, and so on.
    bool monotone_ = true;
    std::vector<Array<K>> reach_;
    Items<K> buffer_, merging_;
    Sorter<K> sorter_;

public:
    // With `complement`, a lookup finds what does not overlap: for inequality of values.
    BiSort(bool intervals, size_t buffer, bool complement = false)
        : limit_(buffer), intervals_(intervals), complement_(complement) {
        low_.room(0); low_.done(0); high_.room(0); high_.done(0);
    }

    void insert(const Items<K>& batch) override {
        if (batch.size() >= limit_) {
            flush();
            merge(batch);
            return;
        }
        if (batch.size() + buffer_.size() > limit_) flush();
        for (size_t i = 0; i < batch.size(); i++) buffer_.push(batch.a[i], batch.b[i], batch.ref[i]);
    }

    void seal() override {
        flush();
        low_.shrink(); high_.shrink(); refs_.shrink_to_fit();
        next_low_ = {}; next_high_ = {}; buffer_ = {}; merging_ = {}; sorter_ = {};
        next_refs_ = Array<u32>();  // `{}` would be an empty list, and keep the memory
    }

    void probe(const Items<K>& batch, size_t from, size_t to, Found& found) const override {
        if (size_ && monotone_) {
            // Partitions are found some lookups ahead of when they are read.
            const Sorted<K>& high = intervals_ ? high_ : low_;
            size_t hints[AHEAD], hint = 0;
            auto advance = [&](size_t i) {
                high.advance(batch.a[i], hint);
                hints[i % AHEAD] = hint;
            };
            for (size_t i = from; i < std::min(from + AHEAD, to); i++) advance(i);
            size_t end_hint = 0;
            for (size_t i = from; i < to; i++) {
                size_t begin = high.below(batch.a[i], hints[i % AHEAD]), end;
                if (intervals_) {
                    if (batch.b[i] == std::numeric_limits<K>::max()) {
                        end = size_;
                    } else {
                        low_.advance(batch.b[i] + 1, end_hint);
                        end = low_.below(batch.b[i] + 1, end_hint);
                    }
                } else {
                    end = low_.up_to(batch.b[i], hints[i % AHEAD]);
                }
                if (i + AHEAD < to) advance(i + AHEAD);
                if (complement_) {
                    if (begin) found.range(batch.ref[i], 0, begin);
                    begin = end;
                    end = size_;
                }
                if (begin < end) found.range(batch.ref[i], begin, end);
            }
        } else if (size_) {
            for (size_t i = from; i < to; i++) {
                size_t first = found.copied.size(), end = low_.up_to(batch.b[i], 0);
                if (end) reaching(reach_.size(), 0, end, batch.a[i], found);
                if (found.copied.size() > first)
                    found.copies.push_back({batch.ref[i], u32(first), u32(found.copied.size())});
            }
        }
        if (buffer_.size()) probe_buffer(batch, from, to, found);
    }

    const u32* refs() const override { return refs_.data(); }
    size_t size() const override { return size_ + buffer_.size(); }
    size_t bytes() const override {
        size_t reach = 0;
        for (const auto& level : reach_) reach += level.capacity() * sizeof(K);
        return reach + low_.bytes() + high_.bytes() + next_low_.bytes() + next_high_.bytes() +
               4 * (refs_.capacity() + next_refs_.capacity()) +
               (buffer_.a.capacity() + merging_.a.capacity()) * (2 * sizeof(K) + 4);
    }
    void entries(Items<K>& all) const override {
        for (size_t i = 0; i < size_; i++)
            all.push(low_.data()[i], (intervals_ ? high_ : low_).data()[i], refs_[i]);
        for (size_t i = 0; i < buffer_.size(); i++)
            all.push(buffer_.a[i], buffer_.b[i], buffer_.ref[i]);
    }

private:
    void flush() {
        if (!buffer_.size()) return;
        sorter_.sort(buffer_);
        std::swap(buffer_, merging_);
        merge(merging_);
        buffer_.clear();
        merging_.clear();
    }

    // Of the tuples before `end`, find those that reach up to x, among what a place of the level above covers.
    void reaching(size_t level, size_t above, size_t end, K x, Found& found) const {
        const K* keys = level ? reach_[level - 1].data() : high_.data();
        size_t from = above * PARTITION, n = ((end - 1) >> (4 * level)) + 1 - from;
        u32 hits = at_least16(keys + from, x);
        if (n < PARTITION) hits &= (u32(1) << n) - 1;
        if (!level) found.examined += std::min(n, PARTITION);
        for (; hits; hits &= hits - 1) {
            size_t at = from + __builtin_ctz(hits);
            if (level) reaching(level - 1, at, end, x, found);
            else found.copied.push_back(refs_[at]);
        }
    }
    void find_reach() {
        reach_.clear();
        const K* keys = high_.data();
        for (size_t n = size_; n > PARTITION;) {
            size_t parts = (n + PARTITION - 1) / PARTITION;
            Array<K> most(parts + PARTITION);  // sixteen are read at a time
            for (size_t i = 0; i < parts; i++)
                most[i] = *std::max_element(keys + i * PARTITION, keys + std::min(n, (i + 1) * PARTITION));
            reach_.push_back(std::move(most));
            keys = reach_.back().data();
            n = parts;
        }
    }

    void probe_buffer(const Items<K>& batch, size_t from, size_t to, Found& found) const {
        size_t n = buffer_.size();
        u8 hits[64];
        for (size_t i = from; i < to; i++) {
            K a = batch.a[i], b = batch.b[i];
            size_t first = found.copied.size();
            for (size_t at = 0; at < n; at += 64) {
                size_t some = std::min<size_t>(64, n - at);
                const K *low = &buffer_.a[at], *high = &buffer_.b[at];
                u32 any = 0;
                for (size_t j = 0; j < some; j++) any += hits[j] = ((low[j] <= b) & (high[j] >= a)) ^ u8(complement_);
                if (any)
                    for (size_t j = 0; j < some; j++)
                        if (hits[j]) found.copied.push_back(buffer_.ref[at + j]);
            }
            if (found.copied.size() > first)
                found.copies.push_back({batch.ref[i], u32(first), u32(found.copied.size())});
        }
        found.examined += (to - from) * n;
    }

    // Copy in whole partitions: what is written too far is written over next.
    template <class T> static void copy(T* to, const T* from, size_t n) {
        for (size_t i = 0; i < n; i += PARTITION) std::memcpy(to + i, from + i, PARTITION * sizeof(T));
    }

    void merge(const Items<K>& batch) {
        size_t n = size_, m = batch.size(), whole = n + m;
        K* low = next_low_.room(whole);
        K* high = intervals_ ? next_high_.room(whole) : nullptr;
        next_refs_.resize(std::max(next_refs_.size(), whole + 2 * PARTITION));
        refs_.resize(std::max(refs_.size(), n + 2 * PARTITION));
        size_t read = 0, hint = 0, write = 0;
        auto take = [&](size_t until) {
            size_t some = until - read;
            copy(low + write, low_.data() + read, some);
            if (high) copy(high + write, high_.data() + read, some);
            copy(next_refs_.data() + write, refs_.data() + read, some);
            write += some;
            read = until;
        };
        for (size_t i = 0; i < m; i++) {
            low_.advance(batch.a[i], hint);
            size_t place = std::max(read, low_.below(batch.a[i], hint));
            if (high)  // among equal a, by b
                while (place < n && low_.data()[place] == batch.a[i] &&
                       high_.data()[place] < batch.b[i]) place++;
            take(place);
            low[write] = batch.a[i];
            if (high) high[write] = batch.b[i];
            next_refs_[write++] = batch.ref[i];
        }
        take(n);
        next_low_.done(whole);
        std::swap(low_, next_low_);
        if (high) {
            next_high_.done(whole);
            std::swap(high_, next_high_);
            if (monotone_) monotone_ = std::is_sorted(high_.data(), high_.data() + whole);
        }
        std::swap(refs_, next_refs_);
        size_ = whole;
        if (!monotone_) find_reach();
    }
};

}  // namespace eddyline
