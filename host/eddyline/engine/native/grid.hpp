// Bands without order: cells of a few tuples each, which are compared all at once. A tuple is stored
// once, in the cell of its lower bounds, and what does not overlap is left out by its bounds.
#pragma once
#include "arrival.hpp"
#include "ranks.hpp"

namespace eddyline {

template <class K, int D> class GridOf final : public InCells<K, D> {
    using Base = InCells<K, D>;
    using typename Base::Box, typename Base::Tuple;
    using Base::boxes_, Base::use_, Base::cells_, Base::path, Base::room_, Base::oldest_, Base::wide_;
    struct Spot { int32_t low[D], high[D]; };  // ranks of bounds
    static constexpr size_t FIRST = 256, SAMPLE = 1 << 16;
    static constexpr size_t PIECES = 4;  // subwindows that a window becomes
    static constexpr int SEGMENT_BITS = 6, SEGMENTS = 1 << SEGMENT_BITS;
    static constexpr u32 CELLS = D == 2 ? 1 << 15 : 1 << 24;  // per dimension, at the most

    Ranks ranks_[D];
    u32 limit_[D];              // ranks that a tuple may cover
    u32 count_[D];              // cells in each dimension of the ranks that were seen
    u64 stride_ = 1;            // from a cell to its neighbour in the first of two dimensions
    std::vector<u32> reach_[2][D];  // how many ranks a side's tuples cover that are stored around a rank
    std::vector<Spot> spots_[2];    // of the batch
    u64 excess_ = 0;

public:
    GridOf(Path&& p, size_t threads) : Base(std::move(p), threads) { forget(); }

    void count(u64 looked, u64 pairs, u64 arrivals) override {
        // What is looked at for nothing; a tuple that is stored well costs a few.
        excess_ += looked > 8 * pairs ? looked - 8 * pairs : 0;
        excess_ -= std::min(excess_, 64 * arrivals);
    }
    std::unique_ptr<Lookup> sorted(const Columns* columns) const override {
        if (D > 1) return nullptr;
        Path same = path;
        same.kind = Kind::bisort;
        auto lookup = std::make_unique<LookupOf<K>>(std::move(same));
        for (int s : {0, 1}) {
            u64 oldest = columns[s].oldest(), count = columns[s].count, piece = (count - oldest) / PIECES + 1;
            auto all = cells_.all(s, oldest, wide_[s]);
            auto one = all.begin();
            lookup->set_target(s, piece);
            for (u64 from = oldest, to; from < count; from = to) {
                to = std::min(from + piece, count);
                Items<K> items;
                for (; one != all.end() && one->ref - u32(oldest) < to - oldest; one++)
                    items.push(one->bounds.low[0], one->bounds.high[0], one->ref);
                lookup->restore(s, items, from, to, columns[s]);
            }
        }
        return lookup;
    }
    void clear() override {
        Base::clear();
        forget();
    }

private:
    void forget() {
        excess_ = 0;
        for (int d = 0; d < D; d++) {
            ranks_[d] = {};
            limit_[d] = ~u32(0);
            count_[d] = 1;
            for (int s : {0, 1}) reach_[s][d].assign(SEGMENTS, 0);
        }
    }

    void read(int s, const u8* records, size_t n, const Layout& layout) override {
        size_t low[D], high[D];
        bool plain = true;  // all bounds are words of 32 bits: mostly, and then there is less to ask
        for (int d = 0; d < D; d++) {
            const Dimension& dimension = path.dimensions[d];
            plain &= dimension.low[s] >= 0 && dimension.high[s] >= 0;
            if (!plain) break;
            auto [low_at, low_size] = layout.words[dimension.low[s]];
            auto [high_at, high_size] = layout.words[dimension.high[s]];
            plain &= low_size == 4 && high_size == 4;
            low[d] = low_at;
            high[d] = high_at;
        }
        if (plain) {
            read_with(s, records, n, layout.stride, [&](const u8* record, int d) {
                return std::pair{u64(Layout::load<u32>(record + low[d])), u64(Layout::load<u32>(record + high[d]))};
            });
        } else {
            read_with(s, records, n, layout.stride, [&](const u8* record, int d) {
                return path.bounds(layout, record, s, d);
            });
        }
    }
    template <class Bounds>
    void read_with(int s, const u8* records, size_t n, size_t stride, const Bounds& bounds) {
        Box* boxes = boxes_[s].data();
        auto* use = use_[s].data();
        u64 needed = path.needed[s];
        for (size_t i = 0; i < n; i++, records += stride) {
            Box& box = boxes[i];
            bool usable = (Layout::valid(records) & needed) == needed;
            for (int d = 0; d < D; d++) {
                auto [low, high] = bounds(records, d);
                box.low[d] = K(low);
                box.high[d] = K(std::min<u64>(high, std::numeric_limits<K>::max()));
                usable &= box.low[d] <= box.high[d];
            }
            use[i] = usable ? Base::CELL : Base::NONE;
        }
    }

    Spot spot_of(const Box& box) const {
        Spot spot;
        for (int d = 0; d < D; d++) {
            spot.low[d] = ranks_[d].of(box.low[d]);
            spot.high[d] = box.low[d] == box.high[d] ? spot.low[d] : ranks_[d].of(box.high[d]);
        }
        return spot;
    }
    // A dimension with a single cell has no others, however far its values go.
    i64 cell(int d, i64 rank) const { return D == 2 && count_[d] == 1 ? 0 : (rank * count_[d]) >> Ranks::BITS; }
    size_t home(const Spot& spot) const {
        u64 at = u64(cell(D - 1, spot.low[D - 1]));
        return cells_.home(D == 2 ? at + u64(cell(0, spot.low[0])) * stride_ : at);
    }
    size_t home(const Box& box) override { return home(spot_of(box)); }
    static size_t segment(int32_t rank) {
        int32_t at = rank >> (Ranks::BITS - SEGMENT_BITS);
        at = at < 0 ? 0 : at;
        return at < SEGMENTS ? at : SEGMENTS - 1;
    }
    // Ranks far outside of what was seen are further apart than an int32 tells.
    static u32 apart(int32_t low, int32_t high) { return u32(high) - u32(low); }
    bool is_wide(int s, const Box& box, const Spot& spot) const {
        bool any = !cells_.fits(s, box);
        for (int d = 0; d < D; d++) any |= apart(spot.low[d], spot.high[d]) > limit_[d];
        return any;
    }

    // Remember how far a tuple reaches that is stored.
    void note(int s, const Spot& spot) {
        for (int d = 0; d < D; d++) {
            u32 covers = apart(spot.low[d], spot.high[d]), *reach = reach_[s][d].data();
            size_t at = segment(spot.low[d]), end = segment(spot.high[d]);
            do if (reach[at] < covers) reach[at] = covers;
            while (++at <= end);
        }
    }

    bool locate(int s, size_t n) override {
        bool any = false;
        spots_[s].resize(n);
        Spot* spots = spots_[s].data();
        const Box* boxes = boxes_[s].data();
        auto* use = use_[s].data();
        for (size_t i = 0; i < n; i++) {
            u32 covers = 0;
            bool further = false, wide = !cells_.fits(s, boxes[i]);
            for (int d = 0; d < D; d++) {
                K low = boxes[i].low[d], high = boxes[i].high[d];
                int32_t rank = ranks_[d].of(low), last = rank;
                if (low != high) {
                    last = ranks_[d].of(high);
                    covers = apart(rank, last);
                    wide |= covers > limit_[d];
                    const u32* reach = reach_[s][d].data();
                    size_t at = segment(rank), end = segment(last);
                    further |= (end - at > 1) | (covers > reach[at]) | (covers > reach[end]);
                }
                spots[i].low[d] = rank;
                spots[i].high[d] = last;
            }
            if (!use[i]) [[unlikely]] continue;
            if (wide) [[unlikely]] {
                use[i] = Base::WIDE;
                any = true;
            } else if (further) [[unlikely]] {
                note(s, spots[i]);
            }
        }
        return any;
    }

    size_t aim(const Batch& batch, size_t from, size_t to, size_t* place,
               std::vector<typename Base::Visits>& visits) const override {
        if (visits.size() > 1) return aim_at(batch, from, to, place, visits, [&](size_t cell) { return cells_.part(cell); });
        return aim_at(batch, from, to, place, visits, [](size_t) { return size_t(0); });
    }
    template <class Part>
    size_t aim_at(const Batch& batch, size_t from, size_t to, size_t* place,
                std::vector<typename Base::Visits>& visits, const Part& part) const {
        const u8* sides = batch.sides.data();
        const Spot* spots[2] = {spots_[0].data(), spots_[1].data()};
        const typename Base::Use* use[2] = {use_[0].data(), use_[1].data()};
        const Box* boxes[2] = {boxes_[0].data(), boxes_[1].data()};
        const u64* starts[2] = {batch.start[0].data(), batch.start[1].data()};
        const u32 first_of[2] = {u32(batch.first[0]), u32(batch.first[1])};
        const u32* reach[2][D];
        for (int s : {0, 1})
            for (int d = 0; d < D; d++) reach[s][d] = reach_[s][d].data();
        const u64 size = cells_.size(), stride = D == 2 ? stride_ : size;
        size_t many = 0;  // visits of arrivals that have more than a few
        for (size_t i = from; i < to; i++) {
            int s = sides[i];
            size_t mine = place[s]++;
            if (!use[s][mine]) [[unlikely]] continue;
            const Spot& spot = spots[s][mine];
            i64 first[D], last[D], own[D];
            for (int d = 0; d < D; d++) {
                u32 before = reach[1 - s][d][segment(spot.low[d])];
                own[d] = cell(d, spot.low[d]);
                first[d] = before ? cell(d, i64(spot.low[d]) - before) : own[d];
                last[d] = spot.high[d] == spot.low[d] ? own[d] : cell(d, spot.high[d]);
            }
            u64 at = u64(first[D - 1]), along = last[D - 1] - first[D - 1], across = 0, home = u64(own[D - 1]);
            if (D == 2) {
                across = last[0] - first[0];
                at += u64(first[0]) * stride;
                home += u64(own[0]) * stride;
            }
            u32 start = u32(starts[s][mine]), who = first_of[s] + u32(mine);
            const Box& box = boxes[s][mine];
            // Write a visit down; one that does not count is written over next.
            auto add = [&](u64 number, u64 own, bool counts) {
                auto& list = visits[part(number)];
                list.all[list.n] = {number, s, number == own, start, who, box};
                list.n += counts;
            };
            bool stored = use[s][mine] != Base::WIDE;
            // Mostly few cells, none of them from behind the end, and without guessing how many they are.
            if ((along | across) <= 1 && along < stride && at < size && at + across * stride + along < size && stored) [[likely]] {
                add(at, home, true);
                add(at + along, home, along);
                if (D == 2) {
                    add(at + across * stride, home, across);
                    add(at + across * stride + along, home, across & along);
                }
                continue;
            }
            // No cell twice.
            if (along + across * stride >= size || (across && along >= stride)) {
                at = across = 0;
                along = size - 1;
            }
            for (auto& list : visits) list.room((across + 1) * (along + 1) + Base::FEW * (to - i));
            home = stored ? cells_.home(home) : size;
            for (u64 row = 0; row <= across; row++, at += stride)
                for (u64 step = 0; step <= along; step++) add(cells_.home(at + step), home, true);
            many += (across + 1) * (along + 1);
            if (many >= Base::MANY) return i + 1;
        }
        return to;
    }

    bool lacks_room(const u64* live) const override {
        u64 more = std::max(live[0], live[1]);
        u64 bearable = 256 * (live[0] + live[1]) + 1000 * FIRST;
        return (more >= FIRST && more > room_) || excess_ > bearable;
    }

    // Spread cells over what is there now.
    void make_room(const Columns* columns, const u64* live, Pool& pool) override {
        std::vector<Tuple> all[2];
        std::vector<Box> some;
        u64 expected = 0;
        auto even = Base::widths();
        bool many = live[0] + live[1] >= Base::SMALL;
        pool.run(2, [&](size_t s) {
            all[s] = cells_.all(s, oldest_[s], std::move(wide_[s]));
            wide_[s].clear();
        }, many);
        for (int s : {0, 1}) {
            size_t before = some.size();
            size_t n = all[s].size(), m = boxes_[s].size(), step = std::max<size_t>(1, (n + m) / SAMPLE);
            for (size_t i = 0; i < n; i += step) some.push_back(all[s][i].bounds);
            for (size_t i = 0; i < m; i += step)
                if (use_[s][i]) some.push_back(boxes_[s][i]);
            expected = std::max(expected, Base::expected(columns[s], live[s]));
            for (int d = 0; d < D && before < some.size(); d++) {
                K width = some[before].high[d] - some[before].low[d];
                auto same = [&](const Box& box) { return box.high[d] - box.low[d] == width; };
                if (std::all_of(some.begin() + before, some.end(), same)) even[s][d] = width;
            }
        }
        room_ = expected + std::max(boxes_[0].size(), boxes_[1].size());
        double share[D];  // of the ranks, what a band covers
        std::vector<u32> covered[D];
        for (int d = 0; d < D; d++) {
            std::vector<u64> values;
            for (const Box& box : some) values.push_back(box.low[d]);
            ranks_[d].learn(values);
            auto& widths = covered[d];
            for (const Box& box : some)
                if (box.low[d] != box.high[d])
                    widths.push_back(apart(ranks_[d].of(box.low[d]), ranks_[d].of(box.high[d])));
            std::sort(widths.begin(), widths.end());
            u32 usual = widths.empty() ? 0 : widths[widths.size() / 2];
            share[d] = std::max(1.0, double(usual)) / (u32(1) << Ranks::BITS);
            for (int s : {0, 1}) reach_[s][d].assign(SEGMENTS, 0);
        }
        cells_.reset(expected, even, oldest_[0], oldest_[1], pool);
        divide(some, expected, share);
        limit(covered, double(live[0] + live[1]) / std::max<size_t>(1, some.size()));
        pool.run(2, [&](size_t s) {
            std::erase_if(all[s], [&](const Tuple& one) {
                Spot spot = spot_of(one.bounds);
                bool wide = is_wide(s, one.bounds, spot);
                if (wide) wide_[s].push_back(one);
                else note(s, spot);
                return wide;
            });
            Base::fill(s, all[s]);
        }, many);
        excess_ = 0;
    }

    // Say which tuples are wide. Everyone is compared with these; of the others, the widest tell how
    // many cells a lookup visits. `each` is how many tuples one of the sample stands for.
    void limit(const std::vector<u32>* covered, double each) {
        double least = std::numeric_limits<double>::infinity();
        for (size_t one_in = 1024; one_in >= 2; one_in /= 2) {
            double cells = 1, wide = 0;
            u32 most[D] = {};
            for (int d = 0; d < D; d++) {
                size_t n = covered[d].size();
                if (n) most[d] = covered[d][n - 1 - n / one_in];
                cells *= 1 + double(most[d]) * count_[d] / (u32(1) << Ranks::BITS);
                wide += each * double(n / one_in);
            }
            double cost = LANES * cells + wide;
            if (cost >= least) continue;
            least = cost;
            for (int d = 0; d < D; d++) limit_[d] = u32(std::min<u64>(4 * u64(most[d]) + (u64(1) << (Ranks::BITS - 7)), ~u32(0)));
        }
    }

    // So many cells in each dimension that a lookup touches few of them.
    void divide(const std::vector<Box>& some, u64 tuples, const double* share) {
        size_t cells = cells_.size();
        u32* count = count_;
        if constexpr (D == 1) {
            count[0] = std::min<u64>(cells, CELLS);
        } else {
            double first = std::sqrt(cells * share[1] / share[0]);
            count[0] = u32(std::clamp<double>(first, 1, std::min<double>(cells, CELLS)));
            count[1] = u32(std::clamp<double>(double(cells) / count[0], 1, CELLS));
            stride_ = count[1];
            // Where the dimensions go together, most cells are empty and some are full: have more of
            // them, but not many for a lookup.
            while (crowd(some) * tuples > 2 * PARTITION) {
                bool finer[2];
                for (int d = 0; d < 2; d++) finer[d] = count[d] * share[d] < 1 && count[d] < CELLS / 2;
                if (!finer[0] && !finer[1]) break;
                for (int d = 0; d < 2; d++) count[d] *= 1 + finer[d];
                stride_ = std::max<u64>(1, std::min<u64>(count[1], cells / 64));
            }
        }
    }

    // The share of tuples that is in the same cell as a tuple.
    double crowd(const std::vector<Box>& some) const {
        std::vector<u64> cells;
        for (const Box& box : some) {
            Spot spot = spot_of(box);
            cells.push_back(u64(cell(0, spot.low[0])) << 32 | u32(cell(D - 1, spot.low[D - 1])));
        }
        std::sort(cells.begin(), cells.end());
        double together = 0, n = cells.size();
        for (size_t i = 0, j = 0; i < cells.size(); i = j) {
            while (j < cells.size() && cells[j] == cells[i]) j++;
            together += double(j - i) * (j - i - 1);
        }
        return n < 2 ? 0 : together / n / n;
    }
};

}  // namespace eddyline
