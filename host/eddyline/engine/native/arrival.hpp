// Joins without order, arrival by arrival: each tuple looks for partners that came before it, and is
// stored. Partners within a batch are found like all others.
#pragma once
#include "cells.hpp"
#include "lookup.hpp"
#include "pool.hpp"

namespace eddyline {

class ByArrival {
protected:
    static constexpr size_t SMALL = 4096;  // arrivals below which one thread is enough

public:
    Path path;
    u64 examined = 0;
    std::vector<Steps> found;  // what `walk` has found
    explicit ByArrival(Path&& p) : path(std::move(p)) {}
    virtual ~ByArrival() = default;
    virtual void begin(const Batch& batch, Columns* columns, Pool& pool) = 0;
    // Find about `enough` more for every thread; returns whether that was all.
    virtual bool walk(const Batch& batch, size_t enough, Pool& pool) = 0;
    // Another structure that finds many partners faster, with all tuples; or none.
    virtual std::unique_ptr<Lookup> sorted(const Columns*) const { return nullptr; }
    virtual void clear() = 0;
    virtual size_t bytes() const = 0;
};

// What is common to all that have cells. First it is written down at which cells the batch looks;
// then threads visit a part of the cells each, in order of arrival, and fetch memory some visits
// ahead. Few arrivals are not worth a second thread: all of their pairs come in order of arrival,
// but for those of wide tuples.
template <class K, int D> class InCells : public ByArrival {
protected:
    using Box = Bounds<K, D>;
    using Tuple = typename Cells<K, D>::Tuple;
    static constexpr size_t AHEAD = 32, SHARES = 4;  // visits, and parts of cells for a thread
    static constexpr u64 GROWTH = 8;                 // of a window without a number of tuples
    using Visit = typename Cells<K, D>::Visit;
    struct alignas(128) Visits {  // threads write to neighbours
        Array<Visit> all;
        size_t n = 0;
        void room(size_t more) { if (n + more > all.size()) all.resize(2 * (n + more)); }
    };

    Cells<K, D> cells_;
    u64 oldest_[2] = {0, 0}, room_ = 0;
    std::vector<Box> boxes_[2];  // of the batch
    enum Use : u8 { NONE, CELL, WIDE };
    std::vector<Use> use_[2];     // what becomes of them
    std::vector<Tuple> wide_[2];  // tuples that cover too many cells: everyone looks at them

private:
    std::vector<std::vector<Visits>> visits_;  // by part of the arrivals at hand, then of the cells
    size_t aimed_ = 0;            // arrivals whose visits have been written down
    struct Place { size_t list, at; };
    std::vector<Place> next_;     // where to go on, of each part of the cells
    size_t arrived_ = 0, place_[2];  // the same for wide tuples
    bool any_wide_[2];
    u64 swept_[2] = {0, 0};

protected:
    // Read the bounds of a batch's tuples, and whether they are of use.
    virtual void read(int side, const u8* records, size_t n, const Layout& layout) = 0;
    // Whether cells do not suit any more what there is with a batch, so many tuples of each side.
    virtual bool lacks_room(const u64* live) const = 0;
    // Make them anew.
    virtual void make_room(const Columns* columns, const u64* live, Pool& pool) = 0;
    // What has to be known of all tuples of a side before the first of the other looks for them.
    // Returns whether some are wide.
    virtual bool locate(int, size_t) { return false; }
    virtual size_t home(const Box& box) = 0;
    // Write down which cells the arrivals visit from `from` to `to`, whose first have these places.
    // There is room for FEW visits each. Those with more of them are at an end after MANY: they would
    // fill the memory. Returns up to where it came.
    static constexpr size_t FEW = 4, MANY = 1 << 16;
    virtual size_t aim(const Batch& batch, size_t from, size_t to, size_t* place,
                       std::vector<Visits>& visits) const = 0;

    // What is known of the widths of bounds without having seen any: values have none.
    typename Cells<K, D>::Widths widths() const {
        typename Cells<K, D>::Widths all{};
        for (int s : {0, 1})
            for (size_t d = 0; d < path.dimensions.size(); d++)
                if (path.dimensions[d].low[s] != path.dimensions[d].high[s]) all[s][d] = Cells<K, D>::UNEVEN;
        return all;
    }
    // Put a side's tuples into new cells.
    void fill(int s, const std::vector<Tuple>& all) {
        Visit ahead[AHEAD];
        for (size_t i = 0, n = all.size(); i < n + AHEAD; i++) {
            Visit& visit = ahead[i % AHEAD];
            if (i >= AHEAD && i - AHEAD < n) {
                u64 sequence = oldest_[s] + u32(visit.who - u32(oldest_[s]));
                auto told = [&] { return sequence; };
                if (s) cells_.template insert<1>(visit, u32(oldest_[1]), told);
                else cells_.template insert<0>(visit, u32(oldest_[0]), told);
            }
            if (i >= n) continue;
            visit = Visit(home(all[i].bounds), s, true, 0, all[i].ref, all[i].bounds);
            cells_.prefetch(visit);
        }
    }
    // Tuples that a window is going to have. A number of them that is near is taken at once: moving
    // half a window costs more than room that may stay empty.
    static u64 expected(const Columns& side, u64 live) {
        u64 more = GROWTH * live, size = side.window.size;
        return std::max(live, side.window.kind == 0 && size / 4 <= more ? size : more);
    }
public:
    InCells(Path&& p, size_t threads)
        : ByArrival(std::move(p)), cells_(widths(), threads > 1 ? SHARES * threads : 1) {}

    void begin(const Batch& batch, Columns* columns, Pool& pool) override {
        size_t n = batch.sides.size();
        bool many = n >= SMALL;
        u64 live[2];
        for (int s : {0, 1}) {
            oldest_[s] = columns[s].oldest();
            live[s] = columns[s].count - oldest_[s];
        }
        auto bounds = [&](size_t s) {
            boxes_[s].resize(batch.size(s));
            use_[s].resize(batch.size(s));
            read(s, batch.records[s].data(), batch.size(s), columns[s].layout);
            auto old = [&](const Tuple& one) { return int32_t(one.ref - u32(oldest_[s])) < 0; };
            std::erase_if(wide_[s], old);
        };
        auto place = [&](size_t s) {
            cells_.expire(s, oldest_[s]);
            if (columns[s].count - swept_[s] > u64(1) << 30) {
                cells_.sweep(s, oldest_[s]);
                swept_[s] = columns[s].count;
            }
            any_wide_[s] = locate(s, batch.size(s)) || !wide_[s].empty();
        };
        if (lacks_room(live)) {
            pool.run(2, bounds, many);
            make_room(columns, live, pool);
            pool.run(2, place, many);
        } else {
            pool.run(2, [&](size_t s) { bounds(s); place(s); }, many);
        }
        visits_.resize(many ? pool.size() : 1);
        next_.resize(many ? cells_.parts() : 1);
        found.resize(next_.size() + 1);
        aimed_ = arrived_ = place_[0] = place_[1] = 0;
        aim_on(batch, pool);
    }

    bool walk(const Batch& batch, size_t enough, Pool& pool) override {
        std::vector<u64> looked(found.size());
        std::vector<u8> ended(found.size());
        pool.run(found.size(), [&](size_t part) {
            found[part].n = 0;
            ended[part] = part < next_.size() ? visit(batch, part, enough, looked[part])
                                                : look_at_wide(batch, enough, looked[part]);
        }, next_.size() > 1);
        u64 sum = 0, pairs = 0;
        for (u64 one : looked) sum += one;
        for (const Steps& some : found) pairs += some.n;
        examined += sum;
        bool all = std::all_of(ended.begin(), ended.end() - 1, [](u8 one) { return one; });
        if (all && aimed_ < batch.sides.size()) {
            aim_on(batch, pool);
            all = false;
        }
        all &= ended.back();
        count(sum, pairs, all ? batch.sides.size() : 0);
        return all;
    }
    // So many were looked at for so many pairs, and so many arrivals have found all of them.
    virtual void count(u64, u64, u64) {}

    void clear() override {
        cells_.clear(widths());
        for (int s : {0, 1}) {
            wide_[s].clear();
            swept_[s] = 0;
        }
        room_ = 0;
    }
    size_t bytes() const override {
        size_t visits = 0;
        for (const auto& lists : visits_)
            for (const Visits& list : lists) visits += list.all.capacity();
        return cells_.bytes() + visits * sizeof(Visit);
    }

private:
    // Write down the next visits.
    void aim_on(const Batch& batch, Pool& pool) {
        size_t begin = aimed_, left = batch.sides.size() - begin, parts = visits_.size();
        std::vector<size_t> ends(parts);
        auto border = [&](size_t part) { return begin + left * part / parts; };
        pool.run(parts, [&](size_t part) {
            size_t from = border(part), to = border(part + 1), place[2];
            for (int s : {0, 1}) {
                const auto& places = batch.arrival[s];
                place[s] = std::lower_bound(places.begin(), places.end(), from) - places.begin();
            }
            visits_[part].resize(next_.size());
            for (Visits& list : visits_[part]) {
                list.n = 0;
                list.room(FEW * (to - from) + 1);
            }
            ends[part] = aim(batch, from, to, place, visits_[part]);
        });
        // Visits are made in order of arrival: what is behind a part with a rest is aimed again.
        size_t part = 0;
        while (part + 1 < parts && ends[part] == border(part + 1)) part++;
        aimed_ = ends[part];
        while (++part < parts)
            for (Visits& list : visits_[part]) list.n = 0;
        std::fill(next_.begin(), next_.end(), Place{0, 0});
    }

    // Visit the cells of a part; returns whether all have been visited.
    bool visit(const Batch& batch, size_t part, size_t enough, u64& sum) {
        u64 looked = 0;  // others count beside `sum`: not in the same line of memory
        Place& next = next_[part];
        const u32 first[2] = {u32(batch.first[0]), u32(batch.first[1])};
        u32 oldest[2] = {u32(oldest_[0]), u32(oldest_[1])};
        const bool late = batch.reach.on;
        Writer out(found[part]);
        for (; next.list < visits_.size(); next = {next.list + 1, 0}) {
            const Visit *begin = visits_[next.list][part].all.data(), *visit = begin + next.at;
            const Visit* end = begin + visits_[next.list][part].n;
            for (const Visit* soon = visit; soon < std::min(visit + AHEAD, end); soon++) cells_.prefetch(*soon);
            for (; visit < end && out.n < enough; visit++) {
                if (visit + AHEAD < end) cells_.prefetch(visit[AHEAD]);
                auto step = [&]<int SIDE>() __attribute__((always_inline)) {
                    looked += cells_.template find<SIDE>(*visit, out);
                    if (!late) oldest[1 - SIDE] = visit->start;
                    if (visit->stores())
                        cells_.template insert<SIDE>(*visit, oldest[SIDE], [&] {
                            return batch.first[SIDE] + u32(visit->who - first[SIDE]);
                        });
                };
                if (visit->side()) step.template operator()<1>();
                else step.template operator()<0>();
            }
            next.at = visit - begin;
            if (visit < end) break;
        }
        sum = looked;
        return next.list == visits_.size();
    }

    // Compare with wide tuples in order of arrival; returns whether all have been.
    bool look_at_wide(const Batch& batch, size_t enough, u64& looked) {
        Steps& out = found.back();
        size_t n = batch.sides.size();
        if (!any_wide_[0] && !any_wide_[1]) arrived_ = n;
        for (; arrived_ < n && out.n < enough; arrived_++) {
            int side = batch.sides[arrived_];
            size_t place = place_[side]++;
            if (use_[side][place] == NONE) continue;
            const Box& box = boxes_[side][place];
            u32 who = u32(batch.first[side] + place), start = u32(batch.start[side][place]);
            for (const Tuple& one : wide_[1 - side])
                if (int32_t(one.ref - start) >= 0 && one.bounds.overlap(box)) out.add(side, who, one.ref);
            looked += wide_[1 - side].size();
            if (use_[side][place] == WIDE) wide_[side].push_back({box, who});
        }
        return arrived_ == n;
    }
};

}  // namespace eddyline
