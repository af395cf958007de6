// RaP-Table (PanJoin, section III-B): a table of splitters over unsorted partitions. The splitters
// of a subwindow follow from histograms of its predecessor.
#pragma once
#include "llat.hpp"

namespace eddyline {

struct Histogram { u64 count, min, max; };

// Algorithm 1. Where `sum` passes N/P * j within a partition, splitter j lies there, as far into
// its values as if they were spread evenly. There may be more partitions to come, or fewer, than there were.
inline std::vector<u64> adjusted(const std::vector<Histogram>& partitions, size_t p) {
    double n = 0, sum = 0;
    for (const auto& one : partitions) n += one.count;
    std::vector<u64> splitters;
    size_t j = 1;
    for (const auto& one : partitions) {
        double before = sum;
        sum += one.count;
        for (; j < p && n / p * j <= sum && one.count; j++) {
            double into = (n / p * j - before) / one.count * double(one.max - one.min);
            // A double may round a distance of 64 bits up to one that has 65.
            u64 most = one.max - one.min;
            splitters.push_back(one.min + (into < double(most) ? u64(into) : most));
        }
    }
    while (splitters.size() + 1 < p) splitters.push_back(splitters.empty() ? 0 : splitters.back());
    for (size_t i = 1; i < splitters.size(); i++)
        splitters[i] = std::max(splitters[i], splitters[i - 1]);
    return splitters;
}

// The same of some keys, which are sorted: what lies between two of them is taken to be spread evenly.
template <class K> std::vector<Histogram> histogram_of(const K* keys, size_t n) {
    constexpr size_t MOST = 4096;
    std::vector<Histogram> all;
    size_t step = n / MOST + 1;
    for (size_t i = 0, j = 0; i < n; i = j) {
        j = std::min(i + step, n);
        all.push_back({j - i, keys[i], keys[std::min(j, n - 1)]});
    }
    return all;
}

template <class K> class RapTable : public Structure<K> {
    std::vector<K> splitters_;  // partition i has the keys above splitter i-1, up to splitter i
    std::vector<u32> last_;     // each partition's last entry
    std::vector<Histogram> histogram_;
    std::vector<K> reach_;      // largest b up to each partition; only of intervals
    Llat<K> table_;
    size_t size_ = 0;
    bool intervals_;

public:
    RapTable(bool intervals, size_t capacity, size_t partitions, double sigma,
             const std::vector<u64>& splitters)
        // Rounded up, or twice as many entries as partitions would not always suffice.
        : table_(2 * partitions, size_t(capacity * sigma / partitions) + 1, intervals),
          intervals_(intervals) {
        for (size_t i = 0; i < partitions; i++) last_.push_back(table_.take());
        histogram_.assign(partitions, {0, ~u64(0), 0});
        reach_.assign(intervals ? partitions : 0, 0);
        K span = std::numeric_limits<K>::max();
        for (size_t i = 1; i < partitions; i++)
            splitters_.push_back(splitters.size() == partitions - 1 ? K(splitters[i - 1])
                                                                    : K(span / partitions * i));
    }

    const std::vector<Histogram>& histogram() const { return histogram_; }
    size_t entries_used() const { return table_.entries(); }
    size_t entry_width() const { return table_.width(); }

    void insert(const Items<K>& batch) override {
        size_t at = 0;
        for (size_t i = 0; i < batch.size(); i++) {
            K a = batch.a[i], b = batch.b[i];
            at = rebound(at, splitters_.size(), [&](size_t p) { return splitters_[p] < a; });
            last_[at] = table_.append(last_[at], a, b, batch.ref[i]);
            Histogram& h = histogram_[at];
            h.count++;
            h.min = std::min<u64>(h.min, a);
            h.max = std::max<u64>(h.max, a);
            for (size_t p = at; p < reach_.size() && reach_[p] < b; p++) reach_[p] = b;
        }
        size_ += batch.size();
    }

    void probe(const Items<K>& batch, size_t from, size_t to, Found& found) const override {
        size_t first = 0;
        const auto& bounds = intervals_ ? reach_ : splitters_;
        for (size_t i = from; i < to; i++) {
            K a = batch.a[i], b = batch.b[i];
            if (first && !(bounds[first - 1] < a)) first = 0;  // not sorted by it
            first = rebound(first, bounds.size(), [&](size_t p) { return bounds[p] < a; });
            size_t begin = found.copied.size();
            for (size_t p = first; p < last_.size() && (!p || splitters_[p - 1] < b); p++)
                for (u32 entry = p; entry != NONE; entry = table_.next(entry)) {
                    found.examined += table_.count(entry);
                    table_.scan(entry, a, b, found.copied);
                }
            if (found.copied.size() > begin)
                found.copies.push_back({batch.ref[i], u32(begin), u32(found.copied.size())});
        }
    }

    size_t size() const override { return size_; }
    size_t bytes() const override {
        return table_.bytes() + splitters_.capacity() * sizeof(K) + last_.capacity() * 4 +
               histogram_.capacity() * sizeof(Histogram) + reach_.capacity() * sizeof(K);
    }
    void entries(Items<K>& all) const override {
        for (u32 entry = 0; entry < table_.entries(); entry++)
            for (u32 i = 0; i < table_.count(entry); i++)
                all.push(table_.a(entry)[i], table_.b(entry)[i], table_.ref(entry)[i]);
    }
};

}  // namespace eddyline
