// Chained subwindows (PanJoin, section III-A): only the newest is written, the oldest leaves whole.
#pragma once
#include "access.hpp"
#include "bisort.hpp"
#include "hash.hpp"
#include "rap.hpp"
#include "wib.hpp"

namespace eddyline {

// Tuples of a batch that an index can serve: their keys in one dimension, and those in the other
// where there are two. `ref` is the place in the batch.
template <class K> struct Keys {
    Items<K> items;
    std::vector<u64> x_low, x_high;  // by place; items are then those of the second dimension
};

// Borders of strips in the first of two dimensions. A tuple lies in the strip of its lower bound.
struct Strips {
    static constexpr size_t MOST = 1 << 14;  // strips to be added: numbers have 16 bits
    static constexpr size_t FEW = 256;       // tuples that do not crowd a strip
    std::vector<u64> borders;
    std::vector<u64> reach;  // largest upper bound up to each strip
    std::vector<u32> held;   // tuples in each
    u64 number = 1 << 15;    // of the first strip
    u64 width = 1;           // of most strips
    u64 least = ~u64(0);     // lower bound of all tuples
    size_t made_for = 0, left = 0, most = 0;  // strips that may be added, tuples in the fullest
    double usual = 1;        // share of the tuples that was expected in the fullest

    size_t of(u64 x) const {
        return partition_point(borders.data(), borders.size(), [&](u64 border) { return border <= x; });
    }
    // Values that keep rising or falling find strips as wide as the others beyond the last border, and
    // before the first; what is much further away is not worth so many. Tuples that are there stay where
    // they are. They are found in a strip below their own, but not above, so a new first strip ends
    // below all of them.
    void widen(u64 low) {
        auto lacks = [&](u64 from, u64 to) { return to > from && to - from > width && (to - from) / width <= left; };
        if (borders.empty()) return;
        for (; lacks(borders.back(), low); left--) {
            borders.push_back(borders.back() + width);
            reach.push_back(reach.back());
            held.push_back(0);
        }
        for (; lacks(low, borders[0]) && low < least; left--, number--) {
            borders.insert(borders.begin(), std::min(borders[0] - width, least));
            reach.insert(reach.begin(), 0);
            held.insert(held.begin(), 0);
        }
    }
    // Note a tuple that is stored, and return its strip.
    size_t take(u64 low, u64 high) {
        size_t strip = of(low);
        for (size_t at = strip; at < reach.size() && reach[at] < high; at++) reach[at] = high;
        most = std::max<size_t>(most, ++held[strip]);
        least = std::min(least, low);
        return strip;
    }
    // Whether several times as many as expected are in one strip.
    bool crowded(size_t tuples) const { return most > FEW && most > 4 * usual * tuples; }
    size_t first_reaching(u64 low) const {
        return partition_point(reach.data(), reach.size(), [&](u64 high) { return high < low; });
    }
};

// Items that are sorted in the second dimension, brought in order of their strips.
template <class K> class Spread {
    struct Entry { K a, b; u32 ref, strip; };
    std::vector<Entry> entries_;
    std::vector<u32> starts_;

public:
    void clear(size_t strips) { entries_.clear(); starts_.assign(strips + 1, 0); }
    void add(size_t strip, K a, K b, u32 ref) {
        entries_.push_back({a, b, ref, u32(strip)});
        starts_[strip + 1]++;
    }
    void sort(Items<K>& out) {
        for (size_t i = 1; i < starts_.size(); i++) starts_[i] += starts_[i - 1];
        out.resize(entries_.size());
        for (const Entry& entry : entries_) {
            u32 at = starts_[entry.strip]++;
            out.a[at] = entry.a;
            out.b[at] = entry.b;
            out.ref[at] = entry.ref;
        }
    }
};

template <class K> struct Subwindow {
    u64 first, last;  // sequence numbers, the second behind the end
    std::unique_ptr<Structure<K>> structure;
    Kind kind;
    Strips strips;
    u64 tuples = 0;  // that were stored, also those that no lookup can find
    u64 split_for = 0;  // tuples that it had when it was last split anew, if ever
    // Where tuples may come in any order. Those that come after the subwindow is full and lie before
    // `from` of the next are kept aside, and looked up together with the others.
    i64 from = EARLIEST, oldest = LATEST, newest = EARLIEST;  // times, the last two of what is in it
    std::unique_ptr<Structure<K>> aside;
    i64 aside_oldest = LATEST;
};

// What a side stores of a batch: places count from `base`, the rest is about what is stored.
struct Stored { u64 base, first, last, tuples; i64 oldest = 0, newest = 0; };

template <class K> class Chain {
    static constexpr size_t SAMPLE = 2048, CHAINED = 12;
    static constexpr u64 FIRST = 256;
    const Path* path_;
    int side_;
    size_t target_;               // tuples of a subwindow
    std::vector<Histogram> histogram_;  // of the newest full RaP-Table
    Strips strips_;               // of the next subwindow
    std::vector<K> sample_, last_sample_;  // some keys of the newest subwindow, and of the one before
    Sorter<K> sorter_;
    Items<K> scratch_;
    Spread<K> spread_;
    Keys<K> on_time_;
    std::vector<Items<K>> late_;  // by subwindow
    std::vector<std::pair<u64, u64>> lookups_;  // some of what was looked up in the first dimension
    size_t sampled_ = 0, looked_ = 0;

public:
    std::vector<Subwindow<K>> subwindows;
    Kind kind;
    u64 sealed = 0, expired = 0, merged = 0, aside = 0;
    double error = 0;  // of the newest full RaP-Table: mean deviation from even partitions
    double drift = 0;  // between the newest full subwindow and the one before: 0 alike, 1 apart

    Chain(const Path& path, int side) : path_(&path), side_(side), target_(1), kind(path.kind) {}

    size_t target() const { return target_; }
    void set_target(size_t tuples) { target_ = std::max<size_t>(1, tuples); }

    void insert(const Keys<K>& keys, const Stored& some, const Columns& columns) {
        Stored rest = some;
        if (!columns.late || !set_aside(keys, rest, columns)) append(keys, some, columns);
        else if (on_time_.items.size()) append(on_time_, rest, columns);
    }

private:
    // Keep aside what belongs to older subwindows; returns whether there was any. The rest is then
    // in `on_time_`.
    bool set_aside(const Keys<K>& keys, Stored& some, const Columns& columns) {
        if (subwindows.empty() || subwindows.back().structure->recycles()) return false;
        size_t older = subwindows.size() - !full(subwindows.back());
        i64 border = full(subwindows.back()) ? subwindows.back().newest : subwindows.back().from;
        if (!older || some.oldest >= border) return false;
        const Items<K>& items = keys.items;
        on_time_.items.clear();
        on_time_.x_low = keys.x_low;
        on_time_.x_high = keys.x_high;
        late_.resize(std::max(late_.size(), older));
        for (auto& one : late_) one.clear();
        for (size_t i = 0; i < items.size(); i++) {
            i64 time = columns.times[some.base + items.ref[i] - columns.base];
            Items<K>* to = &on_time_.items;
            if (time < border) {
                size_t at = older - 1;
                while (at && subwindows[at].from > time) at--;
                subwindows[at].aside_oldest = std::min(subwindows[at].aside_oldest, time);
                to = &late_[at];
            }
            to->push(items.a[i], items.b[i], items.ref[i]);
        }
        for (size_t at = 0; at < older; at++) {
            if (!late_[at].size()) continue;
            Subwindow<K>& one = subwindows[at];
            // Few are kept aside, so merging is cheap, and what is not merged is compared with every lookup.
            if (!one.aside) one.aside = std::make_unique<BiSort<K>>(path_->intervals(side_), 8, path_->complement);
            scratch_.clear();
            if (path_->strips()) place(late_[at], keys, one.strips, u32(some.base), scratch_, spread_);
            else for (size_t i = 0; i < late_[at].size(); i++)
                scratch_.push(late_[at].a[i], late_[at].b[i], u32(some.base) + late_[at].ref[i]);
            one.aside->insert(scratch_);
            some.tuples -= late_[at].size();
            aside += late_[at].size();
        }
        some.oldest = border;
        return true;
    }

    void append(const Keys<K>& keys, const Stored& some, const Columns& columns) {
        if (subwindows.empty() || full(subwindows.back())) create(some.first, keys.items.size());
        Subwindow<K>& open = subwindows.back();
        open.last = some.last;
        open.tuples += some.tuples;
        open.oldest = std::min(open.oldest, some.oldest);
        open.newest = std::max(open.newest, some.newest);
        const Items<K>& items = keys.items;
        scratch_.clear();
        scratch_.reserve(items.size());
        if (path_->strips()) {
            if (open.strips.reach.empty()) open.strips = make_strips(keys);
            place(items, keys, open.strips, u32(some.base), scratch_, spread_);
        } else {
            for (size_t i = 0; i < items.size(); i++)
                scratch_.push(items.a[i], items.b[i], u32(some.base) + items.ref[i]);
        }
        open.structure->insert(scratch_);
        size_t step = std::max<size_t>(1, items.size() / 16);
        for (size_t i = items.size() ? sampled_ % step : 0; i < items.size(); i += step, sampled_++)
            if (sample_.size() < SAMPLE) sample_.push_back(items.a[i]);
            else sample_[sampled_ % SAMPLE] = items.a[i];
        u64 size = open.structure->size();
        // The first RaP-Table knows nothing of its keys until it has some.
        bool blind = open.kind == Kind::rap && histogram_.empty() && last_sample_.empty();
        // Strips are made anew when there are many more tuples, or several times as many in one of them as expected.
        bool uneven = open.strips.crowded(size) && size > open.split_for + open.split_for / 4;
        if (path_->strips() ? uneven || size > 4 * open.strips.made_for : blind && size > 4 * std::max(open.split_for, FIRST)) resplit(open, columns);
        if (full(open)) seal(open, columns);
    }

public:
    // Let what is below `sequence` go, where that is a whole subwindow.
    void expire(u64 sequence) {
        size_t gone = 0;
        while (gone < subwindows.size() && subwindows[gone].last <= sequence) gone++;
        if (gone && gone == subwindows.size() && subwindows.back().structure->recycles()) gone--;
        expired += gone;
        subwindows.erase(subwindows.begin(), subwindows.begin() + gone);
        for (auto& one : subwindows)
            if (one.structure->recycles()) { one.structure->expire(sequence); one.first = std::max(one.first, sequence); }
    }

    void clear() { subwindows.clear(); }

    // Look up a part of a batch in one subwindow; items are sorted unless there are strips.
    void probe(const Subwindow<K>& one, const Structure<K>& structure, const Keys<K>& keys, size_t from,
               size_t to, Found& found, Items<K>& space, Spread<K>& spread) const {
        if (!path_->strips()) return structure.probe(keys.items, from, to, found);
        const Strips& strips = one.strips;
        size_t count = strips.borders.size() + 1;
        spread.clear(count);
        for (size_t i = from; i < to; i++) {
            u32 ref = keys.items.ref[i];
            size_t begin = strips.first_reaching(keys.x_low[ref]), end = strips.of(keys.x_high[ref]);
            for (size_t strip = begin; strip <= end && strip < count; strip++) {
                auto [a, b] = path_->interval(strips.number + strip, keys.items.a[i], keys.items.b[i]);
                spread.add(strip, a, b, ref);
            }
        }
        spread.sort(space);
        structure.probe(space, 0, space.size(), found);
    }

    // Remember how wide lookups are in the first dimension.
    void note_lookups(const Keys<K>& keys) {
        if (!path_->strips()) return;
        size_t n = keys.items.size(), step = std::max<size_t>(1, n / 64);
        for (size_t i = 0; i < n; i += step) {
            u32 ref = keys.items.ref[i];
            if (lookups_.size() < SAMPLE) lookups_.emplace_back();
            lookups_[looked_++ % SAMPLE] = {keys.x_low[ref], keys.x_high[ref]};
        }
    }

    // A structure whose tuples are probably spread as `histogram` says.
    std::unique_ptr<Structure<K>> make(Kind kind, size_t capacity, const std::vector<Histogram>& histogram) const {
        bool intervals = path_->intervals(side_);
        switch (kind) {
            case Kind::hash: return std::make_unique<HashRing<K>>(capacity);
            case Kind::rap: {
                size_t partitions = std::max<size_t>(1, capacity / path_->width);
                auto splitters = histogram.empty() ? std::vector<u64>() : adjusted(histogram, partitions);
                return std::make_unique<RapTable<K>>(intervals, capacity, partitions, path_->sigma, splitters);
            }
            case Kind::wib: return std::make_unique<WibTree<K>>(intervals, capacity, path_->width);
            default: return std::make_unique<BiSort<K>>(intervals, path_->buffer, path_->complement);
        }
    }

    // A structure that holds one batch, to be looked up by the other side's part of it.
    Subwindow<K> alone(const Keys<K>& keys) const {
        Subwindow<K> one{0, 0, nullptr, kind, {}};
        bool hash = kind == Kind::hash;
        one.structure = hash ? make(Kind::hash, keys.items.size(), {})
                             : std::make_unique<BiSort<K>>(path_->intervals(side_), 0, path_->complement);
        if (!path_->strips()) {
            one.structure->insert(keys.items);
            return one;
        }
        one.strips = make_strips(keys);
        Items<K> items;
        Spread<K> spread;
        place(keys.items, keys, one.strips, 0, items, spread);
        one.structure->insert(items);
        return one;
    }

    // Tuples held, the oldest and behind the newest of their sequence numbers, whether the newest
    // subwindow is full.
    void held(u64* to) const {
        to[0] = to[1] = to[2] = to[3] = 0;
        if (subwindows.empty()) return;
        for (const auto& one : subwindows) to[0] += one.structure->size() + (one.aside ? one.aside->size() : 0);
        to[1] = subwindows.front().first;
        to[2] = subwindows.back().last;
        to[3] = full(subwindows.back());
    }

    size_t bytes() const {
        size_t all = 0;
        for (const auto& one : subwindows)
            all += one.structure->bytes() + (one.aside ? one.aside->bytes() : 0) + 20 * one.strips.borders.capacity();
        return all;
    }

private:
    // Put items behind their strips, in order.
    void place(const Items<K>& items, const Keys<K>& keys, Strips& strips, u32 first, Items<K>& out,
               Spread<K>& spread) const {
        for (u32 ref : items.ref) strips.widen(keys.x_low[ref]);
        spread.clear(strips.borders.size() + 1);
        for (size_t i = 0; i < items.size(); i++) {
            u32 ref = items.ref[i];
            size_t strip = strips.take(keys.x_low[ref], keys.x_high[ref]);
            auto [a, b] = path_->interval(strips.number + strip, items.a[i], items.b[i]);
            spread.add(strip, a, b, first + ref);
        }
        spread.sort(out);
    }

    Strips make_strips(const Keys<K>& keys) const {
        std::vector<u64> low, high;
        for (u32 ref : keys.items.ref) {
            low.push_back(keys.x_low[ref]);
            high.push_back(keys.x_high[ref]);
        }
        return make_strips(low, high, low.size());
    }

    bool full(const Subwindow<K>& one) const {
        return !one.structure->recycles() && one.tuples >= target_;
    }

    void create(u64 first, size_t batch) {
        size_t capacity = kind == Kind::hash ? batch : std::max(target_, batch);
        i64 from = subwindows.empty() ? EARLIEST : subwindows.back().newest;
        subwindows.push_back({first, first, make(kind, capacity, expected()), kind, strips_});
        subwindows.back().from = from;
    }

    void seal(Subwindow<K>& one, const Columns& columns) {
        sealed++;
        if (path_->strips()) strips_ = next_strips(one, columns);
        histogram_.clear();
        if (auto* rap = dynamic_cast<RapTable<K>*>(one.structure.get())) {
            histogram_ = rap->histogram();
            double even = double(one.structure->size()) / rap->histogram().size(), off = 0;
            for (const auto& h : rap->histogram()) off += std::abs(double(h.count) - even);
            error = even > 0 ? off / even / rap->histogram().size() : 0;
        }
        one.structure->seal();
        std::sort(sample_.begin(), sample_.end());
        drift = distance(last_sample_, sample_);
        std::swap(last_sample_, sample_);
        sample_.clear();
        if (subwindows.size() > CHAINED) merge_neighbours(columns);
    }

    // Largest difference of two distributions (Kolmogorov and Smirnov), of sorted samples.
    static double distance(const std::vector<K>& one, const std::vector<K>& two) {
        if (one.empty() || two.empty()) return 0;
        double most = 0;
        for (const auto* points : {&one, &two})
            for (K x : *points) {
                double here = std::upper_bound(one.begin(), one.end(), x) - one.begin();
                double there = std::upper_bound(two.begin(), two.end(), x) - two.begin();
                most = std::max(most, std::abs(here / one.size() - there / two.size()));
            }
        return most;
    }

    // How keys to come are spread: as those of the RaP-Table before. The first goes by some keys of the
    // subwindow before.
    std::vector<Histogram> expected() const {
        if (kind != Kind::rap || histogram_.size()) return histogram_;
        return histogram_of(last_sample_.data(), last_sample_.size());
    }

    Strips next_strips(const Subwindow<K>& one, const Columns& columns) const {
        Items<K> some;
        u64 step = std::max<u64>(1, (one.last - one.first) / (4 * SAMPLE));
        for (u64 sequence = std::max(one.first, columns.base); sequence < one.last; sequence += step)
            some.push(0, 0, u32(sequence));
        std::vector<u64> low, high;
        x_of(one, some, columns, low, high);
        return make_strips(low, high, one.structure->size());
    }

    // A window that grows leaves small subwindows behind: put them together.
    void merge_neighbours(const Columns& columns) {
        std::vector<Subwindow<K>> fewer;
        for (auto& one : subwindows) {
            if (fewer.empty() || fewer.back().structure->size() + one.structure->size() > target_) {
                fewer.push_back(std::move(one));
                continue;
            }
            Subwindow<K>& into = fewer.back();
            Items<K> all;
            take_entries(into, all);
            take_entries(one, all);
            into.last = one.last;
            into.tuples += one.tuples;
            into.oldest = std::min(into.oldest, one.oldest);
            into.newest = one.newest;
            rebuild(into, all, columns);
            into.structure->seal();
            merged++;
        }
        subwindows = std::move(fewer);
    }

    void rebuild(Subwindow<K>& one, Items<K>& all, const Columns& columns) {
        if (path_->strips()) {
            std::vector<u64> low, high;
            x_of(one, all, columns, low, high);
            one.strips = make_strips(low, high, all.size());
            u64 ones = path_->range_bits == 64 ? ~u64(0) : (u64(1) << path_->range_bits) - 1;
            for (size_t i = 0; i < all.size(); i++) {
                u64 prefix = (one.strips.number + one.strips.take(low[i], high[i])) << path_->range_bits;
                all.a[i] = prefix | (all.a[i] & ones);
                all.b[i] = prefix | (all.b[i] & ones);
            }
        }
        if (one.kind != Kind::hash) sorter_.sort(all);
        one.structure = make(one.kind, std::max(target_, all.size()), histogram_of(all.a.data(), all.size()));
        one.structure->insert(all);
        one.split_for = all.size();
    }

    void x_of(const Subwindow<K>& one, const Items<K>& all, const Columns& columns,
              std::vector<u64>& low, std::vector<u64>& high) const {
        const Dimension& d = path_->dimensions[0];
        for (size_t i = 0; i < all.size(); i++) {
            u64 sequence = one.first + u32(all.ref[i] - u32(one.first));
            bool gone = sequence < columns.base;  // expired within its subwindow
            low.push_back(d.low[side_] < 0 || gone ? 0 : columns.word(sequence, d.low[side_]));
            high.push_back(d.high[side_] < 0 || gone ? ~u64(0) : columns.word(sequence, d.high[side_]));
        }
    }

    void resplit(Subwindow<K>& one, const Columns& columns) {
        Items<K> all;
        take_entries(one, all);
        rebuild(one, all, columns);
    }

    // Everything in a subwindow, also what was kept aside, which is then among the rest.
    void take_entries(Subwindow<K>& one, Items<K>& all) {
        one.structure->entries(all);
        if (!one.aside) return;
        one.aside->entries(all);
        one.tuples += one.aside->size();
        one.oldest = std::min(one.oldest, one.aside_oldest);
        one.aside_oldest = LATEST;
        one.aside.reset();
    }

    // As many strips as make a lookup cover about one: more would cost searches, fewer candidates.
    Strips make_strips(const std::vector<u64>& low, const std::vector<u64>& high,
                       size_t tuples) const {
        Strips strips;
        strips.made_for = tuples;
        std::vector<std::pair<u64, u64>> some;
        size_t n = low.size(), step = std::max<size_t>(1, n / (4 * SAMPLE));
        for (size_t i = 0; i < n; i += step) some.push_back({low[i], high[i]});
        std::sort(some.begin(), some.end());
        std::vector<u64> highs;
        for (auto& [_, h] : some) highs.push_back(h);
        std::sort(highs.begin(), highs.end());
        double covered = 0;
        for (const auto& [from, to] : lookups_) {
            auto end = std::upper_bound(some.begin(), some.end(), std::make_pair(to, ~u64(0)));
            auto begin = std::lower_bound(highs.begin(), highs.end(), from);
            covered += std::max<double>(0, (end - some.begin()) - (begin - highs.begin()));
        }
        double share = lookups_.empty() ? 0.01 : covered / lookups_.size() / std::max<size_t>(1, some.size());
        size_t most = std::max<size_t>(1, std::min<size_t>(tuples / 32, 4 * SAMPLE));
        size_t count = share * most > 1 ? size_t(1 / share) + 1 : most;
        for (size_t i = 1; i < count; i++) {
            u64 border = some[i * some.size() / count].first;
            if (strips.borders.empty() || border > strips.borders.back()) strips.borders.push_back(border);
        }
        strips.reach.assign(strips.borders.size() + 1, 0);
        strips.held.assign(strips.borders.size() + 1, 0);
        strips.left = std::min(4 * strips.borders.size(), Strips::MOST);
        if (some.empty()) return strips;
        // Without the outermost, which may lie far away.
        u64 inner = some[some.size() * 15 / 16].first - some[some.size() / 16].first;
        strips.width = std::max<u64>(1, inner / (count * 14 / 16 + 1));
        size_t fullest = 0;
        for (auto at = some.begin(); at < some.end();) {
            size_t strip = strips.of(at->first);
            auto end = some.end();
            if (strip < strips.borders.size()) end = std::lower_bound(at, end, std::make_pair(strips.borders[strip], u64(0)));
            fullest = std::max<size_t>(fullest, end - at);
            at = end;
        }
        strips.usual = double(std::max<size_t>(fullest, PARTITION)) / some.size();  // fewer may be chance
        return strips;
    }
};

}  // namespace eddyline
