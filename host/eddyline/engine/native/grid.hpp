// Bands in order of arrival: a hash of cells, about as wide as the bands. In each dimension one side
// has a value, the other two bounds. A value is stored in its cell, and bounds look it up in all
// cells between them. Bounds are stored in their first cell and in every second one from there on,
// mostly none, and a value looks them up in its own cell and the one before: exactly one of these
// two is among them. So two tuples that overlap meet once, and most are stored once.
#pragma once
#include "arrival.hpp"

namespace eddyline {

// A rising map from keys to numbers below 2^31 that spreads what was seen evenly: the share of a
// sample that lies below, straight in between. Floats and skewed keys need this; cells of equal
// width would hold everything, or nothing.
class Ranks {
    static constexpr size_t SEGMENTS = 1024, TABLE = 4096;
    static constexpr int FINE = 20;
    std::vector<u64> borders_;
    std::vector<double> scale_;
    std::vector<u32> table_;  // where to begin to look, by the leading bits
    int shift_ = 0;

public:
    void learn(std::vector<u64>& sample) {
        borders_.clear();
        scale_.clear();
        if (sample.empty()) return;
        std::sort(sample.begin(), sample.end());
        for (size_t i = 0; i <= SEGMENTS; i++) {
            u64 border = sample[std::min(i * sample.size() / SEGMENTS, sample.size() - 1)];
            if (borders_.empty() || border > borders_.back()) borders_.push_back(border);
        }
        for (size_t i = 0; i + 1 < borders_.size(); i++)
            scale_.push_back(double(u32(1) << FINE) / double(borders_[i + 1] - borders_[i]));
        u64 span = borders_.back() - borders_[0];
        shift_ = 0;
        while (span >> shift_ >= TABLE) shift_++;
        table_.assign(TABLE, 0);
        for (size_t t = 0, at = 0; t < TABLE; t++) {
            while (at + 2 < borders_.size() && ((borders_[at + 1] - borders_[0]) >> shift_) < t) at++;
            table_[t] = at;
        }
    }

    u32 of(u64 key) const {
        if (scale_.empty() || key <= borders_[0]) return 0;
        if (key >= borders_.back()) return u32(scale_.size()) << FINE;
        size_t at = table_[(key - borders_[0]) >> shift_];
        while (borders_[at + 1] <= key) at++;
        return (u32(at) << FINE) + std::min(u32((key - borders_[at]) * scale_[at]), (u32(1) << FINE) - 1);
    }
};

template <class K, int D> class GridOf final : public ByArrival {
    static constexpr size_t AHEAD = 16, FIRST = 256, SAMPLE = 1 << 14;
    static constexpr u32 CELLS = D == 2 ? 1 << 15 : 1 << 24;  // per dimension, at the most
    static constexpr u32 SPAN = 16;        // cells of a tuple per dimension, but for a few
    struct Bounds { K low[D], high[D]; };
    struct Slot { u32 cell, next, ref; Bounds bounds; };
    struct Walk { u32 cell, place, at, start; Bounds bounds; };

    struct Table {
        std::vector<u32> heads;
        std::vector<Slot> slots;
        u64 begin = 1, end = 1;  // entries, numbered from 1; a link has the low bits
        int shift = 64;
        std::vector<std::pair<u32, Bounds>> wide;  // tuples in too many cells: looked at by all

        size_t home(u32 cell) const { return (cell * 0x9E3779B97F4A7C15ull) >> shift; }
        size_t mask() const { return slots.size() - 1; }
        void reset(size_t entries) {
            size_t places = 16;
            while (places < entries) places *= 2;
            slots.assign(places, {});
            heads.assign(places, 0);
            shift = 64 - __builtin_ctzll(slots.size());
            begin = end = 1;
            wide.clear();
        }
        void insert(u32 cell, u32 ref, const Bounds& bounds) {
            u32& head = heads[home(cell)];
            slots[end & mask()] = {cell, head, ref, bounds};
            head = u32(end++);
        }
    };

    Table tables_[2];
    Ranks ranks_[D];
    double per_rank_[D] = {};  // cells
    // Of the batch: the cells of each tuple, one after the other, and where they begin; those in
    // which it is stored, and those in which it looks.
    struct Cells {
        std::vector<u32> cells, offsets;
        void clear(size_t n) { cells.clear(); offsets.resize(n + 1); }
    };
    Cells stored_[2], looked_[2];
    std::vector<Bounds> bounds_[2];
    std::vector<Walk> walks_[2];
    std::vector<std::pair<u32, u32>> early_;  // found among the wide ones
    u64 learned_ = 0, tuples_ = 0, last_examined_ = 0, last_tuples_ = 0;

public:
    using ByArrival::ByArrival;

    void prepare(const Batch& batch, Columns* columns) override {
        u64 live = 0;
        for (int side : {0, 1}) live += columns[side].count - columns[side].oldest();
        tuples_ += batch.sides.size();
        bool young = live >= FIRST && live > 4 * learned_;
        bool poor = tuples_ - last_tuples_ > live + FIRST &&
                    examined - last_examined_ > 64 * (tuples_ - last_tuples_);
        if (young || poor) learn(batch, columns, live);
        for (int side : {0, 1}) {
            cover(side, batch.records[side].data(), batch.size(side), columns[side].layout);
            make_room(side, batch, columns);
        }
    }

    void begin_walks(const Batch& batch) override {
        for (auto& some : walks_) some.clear();
        early_.clear();
        size_t place[2] = {0, 0};
        for (size_t i = 0; i < batch.sides.size(); i++) {
            int side = batch.sides[i], other = 1 - side;
            size_t mine = place[side]++;
            const auto &cells = looked_[side].cells, &homes = stored_[side].cells;
            u32 from = looked_[side].offsets[mine], to = looked_[side].offsets[mine + 1];
            for (u32 c = from + AHEAD; c < to + AHEAD && c < cells.size(); c++)
                __builtin_prefetch(&tables_[other].heads[tables_[other].home(cells[c])]);
            u32 home = stored_[side].offsets[mine], end = stored_[side].offsets[mine + 1];
            for (u32 c = home + AHEAD; c < end + AHEAD && c < homes.size(); c++)
                __builtin_prefetch(&tables_[side].heads[tables_[side].home(homes[c])], 1);
            const Bounds& bounds = bounds_[side][mine];
            u32 start = u32(batch.start[side][mine]), ref = u32(batch.first[side] + mine);
            Table &theirs = tables_[other], &own = tables_[side];
            for (const auto& [wide, b] : theirs.wide)
                if (from < to && int32_t(wide - start) >= 0 && overlap(b, bounds)) early_.push_back({u32(mine) << 1 | side, wide});
            u32 oldest = u32(theirs.begin);
            if (to - from > most_cells())
                scan_all(theirs, bounds, start, u32(mine) << 1 | side);
            else for (u32 c = from; c < to; c++) {
                u32 at = theirs.heads[theirs.home(cells[c])];
                if (int32_t(at - oldest) >= 0) walks_[side].push_back({cells[c], u32(mine), at, start, bounds});
            }
            if (end - home > most_cells()) own.wide.push_back({ref, bounds});
            else for (u32 c = home; c < end; c++) own.insert(homes[c], ref, bounds);
        }
    }

    bool walk(std::vector<std::pair<u32, u32>>& found, size_t enough) override {
        found.insert(found.end(), early_.begin(), early_.end());
        early_.clear();
        for (int side : {0, 1}) {
            auto& walks = walks_[side];
            const Table& table = tables_[1 - side];
            u32 oldest = u32(table.begin);
            while (walks.size() && found.size() < enough) {
                size_t kept = 0, n = walks.size();
                for (size_t i = 0; i < n; i++) {
                    if (i + AHEAD < n) __builtin_prefetch(&table.slots[walks[i + AHEAD].at & table.mask()]);
                    const Slot& slot = table.slots[walks[i].at & table.mask()];
                    if (kept != i) walks[kept] = walks[i];
                    Walk& walk = walks[kept];
                    bool inside = int32_t(slot.ref - walk.start) >= 0;
                    if (inside & (slot.cell == walk.cell) && overlap(slot.bounds, walk.bounds))
                        found.push_back({walk.place << 1 | side, slot.ref});
                    walk.at = slot.next;
                    kept += inside & (int32_t(slot.next - oldest) >= 0);
                }
                examined += n;
                walks.resize(kept);
            }
        }
        return walks_[0].empty() && walks_[1].empty();
    }

    size_t run(const std::vector<u8>&, size_t from, size_t*, const std::vector<u64>*,
               std::vector<std::pair<u32, u64>>&, size_t) override { return from; }
    void clear() override {
        for (auto& table : tables_) table = {};
        learned_ = 0;
    }
    size_t bytes() const override {
        size_t all = 0;
        for (const auto& table : tables_) all += 4 * table.heads.capacity() + sizeof(Slot) * table.slots.capacity();
        return all;
    }

private:
    static u32 most_cells() {
        u32 most = 1;
        for (int d = 0; d < D; d++) most *= SPAN;
        return most;
    }
    static bool overlap(const Bounds& x, const Bounds& y) {
        bool all = true;
        for (int d = 0; d < D; d++) all &= (x.low[d] <= y.high[d]) & (y.low[d] <= x.high[d]);
        return all;
    }

    void scan_all(const Table& table, const Bounds& bounds, u32 start, u32 place) {
        // An entry per tuple: the one of its first cell.
        std::vector<u32> seen;
        for (u64 at = table.begin; at < table.end; at++) {
            const Slot& slot = table.slots[at & table.mask()];
            if (int32_t(slot.ref - start) >= 0 && overlap(slot.bounds, bounds)) seen.push_back(slot.ref);
        }
        std::sort(seen.begin(), seen.end());
        seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
        for (u32 ref : seen) early_.push_back({place, ref});
        examined += table.end - table.begin;
    }

    template <class Word> bool bounds_of(int side, Word word, Bounds& bounds) const {
        for (int d = 0; d < D; d++) {
            const Dimension& dimension = path.dimensions[d];
            bounds.low[d] = dimension.low[side] < 0 ? 0 : K(word(dimension.low[side]));
            bounds.high[d] = dimension.high[side] < 0 ? std::numeric_limits<K>::max() : K(word(dimension.high[side]));
            if (bounds.low[d] > bounds.high[d]) return false;
        }
        return true;
    }

    bool has_value(int side, int d) const {
        return path.dimensions[d].low[side] == path.dimensions[d].high[side];
    }
    // From 1 on, so that there is one before.
    u32 cell(int d, K key) const { return 1 + u32(ranks_[d].of(key) * per_rank_[d]); }

    // Write down the cells in which a tuple is stored, or those in which it looks.
    void cells_of(int side, const Bounds& bounds, bool stored, std::vector<u32>& out) const {
        u32 from[2] = {0, 0}, to[2] = {0, 0}, step[2] = {1, 1};
        u64 all = 1;
        for (int d = 0; d < D; d++) {
            from[d] = cell(d, bounds.low[d]);
            bool value = has_value(side, d);
            to[d] = value ? from[d] : cell(d, bounds.high[d]);
            if (stored && !value) step[d] = 2;
            if (!stored && value) from[d]--;
            all *= (to[d] - from[d]) / step[d] + 1;
        }
        if (all > most_cells()) {  // too many to be written down: as many as say so
            out.insert(out.end(), most_cells() + 1, 0);
            return;
        }
        for (u32 x = from[0]; x <= to[0]; x += step[0])
            for (u32 y = from[1]; y <= to[1]; y += step[1]) out.push_back(D == 2 ? x << 16 | y : x);
    }

    void cover(int side, const u8* records, size_t n, const Layout& layout) {
        Cells &stored = stored_[side], &looked = looked_[side];
        stored.clear(n);
        looked.clear(n);
        bounds_[side].resize(n);
        for (size_t i = 0; i < n; i++, records += layout.stride) {
            stored.offsets[i] = stored.cells.size();
            looked.offsets[i] = looked.cells.size();
            if ((Layout::valid(records) & path.needed[side]) != path.needed[side]) continue;
            Bounds& bounds = bounds_[side][i];
            if (!bounds_of(side, [&](int w) { return layout.word(records, w); }, bounds)) continue;
            cells_of(side, bounds, true, stored.cells);
            cells_of(side, bounds, false, looked.cells);
        }
        stored.offsets[n] = stored.cells.size();
        looked.offsets[n] = looked.cells.size();
    }

    // Let old entries go, and begin again with a larger table if the rest does not fit.
    void make_room(int side, const Batch& batch, Columns* columns) {
        Table& table = tables_[side];
        u64 oldest = columns[side].oldest();
        size_t more = stored_[side].cells.size();
        if (table.slots.empty()) table.reset(2 * more);
        while (table.begin < table.end && int32_t(table.slots[table.begin & table.mask()].ref - u32(oldest)) < 0) table.begin++;
        std::erase_if(table.wide, [&](const auto& one) { return int32_t(one.first - u32(oldest)) < 0; });
        size_t need = table.end - table.begin + more;
        bool round = table.end + more > u64(1) << 31;  // links must not come round
        if (need > table.slots.size() || round) fill(side, batch, columns[side], 2 * need);
    }

    // Enter all tuples before the batch anew.
    void fill(int side, const Batch& batch, const Columns& columns, size_t entries) {
        Table& table = tables_[side];
        std::vector<u32> cells;
        std::vector<std::tuple<u32, u32, Bounds>> all;
        std::vector<std::pair<u32, Bounds>> wide;
        for (u64 at = columns.oldest(); at < batch.first[side]; at++) {
            if (columns.keeps_valid && (columns.valid[at - columns.base] & path.needed[side]) != path.needed[side]) continue;
            Bounds bounds;
            if (!bounds_of(side, [&](int w) { return columns.word(at, w); }, bounds)) continue;
            cells.clear();
            cells_of(side, bounds, true, cells);
            if (cells.size() > most_cells()) wide.push_back({u32(at), bounds});
            else for (u32 cell : cells) all.push_back({cell, u32(at), bounds});
        }
        table.reset(std::max(entries, all.size() + all.size() / 4 + stored_[side].cells.size()));
        table.wide = std::move(wide);
        for (const auto& [cell, ref, bounds] : all) table.insert(cell, ref, bounds);
    }

    // Spread cells over what is there now.
    void learn(const Batch& batch, Columns* columns, u64 live) {
        std::vector<u64> values[D];
        std::vector<Bounds> some;
        for (int side : {0, 1}) {
            const Columns& from = columns[side];
            u64 step = std::max<u64>(1, (from.count - from.oldest()) / SAMPLE);
            for (u64 at = from.oldest(); at < from.count; at += step) {
                Bounds bounds;
                if (!bounds_of(side, [&](int w) { return from.word(at, w); }, bounds)) continue;
                some.push_back(bounds);
                for (int d = 0; d < D; d++) values[d].push_back(bounds.low[d]);
            }
        }
        for (int d = 0; d < D; d++) {
            ranks_[d].learn(values[d]);
            std::vector<u32> widths;
            for (const Bounds& b : some)
                if (b.low[d] != b.high[d]) widths.push_back(ranks_[d].of(b.high[d]) - ranks_[d].of(b.low[d]));
            std::sort(widths.begin(), widths.end());
            // As wide as a usual band; and so that hardly any tuple has more than a few cells.
            u32 usual = widths.empty() ? 1 : widths[widths.size() / 2];
            u32 most = widths.empty() ? 1 : widths[widths.size() - 1 - widths.size() / 1000] / (SPAN / 2);
            u32 width = std::max({usual, most, (u32(1) << 30) / CELLS, u32(1)});
            // No finer than what holds a few tuples.
            double share = D == 2 ? std::sqrt(double(live) + 1) : double(live) + 1;
            width = std::max(width, u32((u64(1) << 30) / std::max(1.0, share)));
            per_rank_[d] = 1.0 / width;
        }
        learned_ = live;
        last_examined_ = examined;
        last_tuples_ = tuples_;
        for (int side : {0, 1}) fill(side, batch, columns[side], 0);
    }
};

}  // namespace eddyline
