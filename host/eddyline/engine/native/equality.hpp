// Equality without order: both sides' tuples in hash tables. All of a batch is stored, then all walk
// along their chains, a step at a time side by side, so that memory is fetched for many at once;
// partners that came later are left out. Few arrivals are looked up and stored one after the other,
// and their pairs come in that order.
#pragma once
#include "arrival.hpp"
#include "meeting.hpp"

namespace eddyline {

template <class K> class EqualityOf final : public ByArrival {
    static constexpr size_t AHEAD = Meeting<K>::AHEAD;
    struct Task { int side; size_t from, to; };  // arrivals of a side
    struct Walk { K key; u32 who, at, start, size; };
    Meeting<K> tables_;
    std::vector<Task> tasks_;  // none, where arrivals come one after the other
    std::vector<std::vector<Walk>> walks_;  // of each task
    size_t arrived_ = 0, place_[2];  // where to go on, without tasks

public:
    using ByArrival::ByArrival;

    void begin(const Batch& batch, Columns* columns, Pool& pool) override {
        bool many = batch.sides.size() >= SMALL;
        tables_.load(batch, columns, path, pool, many);
        pool.run(2, [&](size_t side) {
            for (size_t i = 0; many && i < batch.size(side); i++) {
                tables_.rings.prefetch(tables_.keys[side][i + AHEAD]);
                if (tables_.usable[side][i]) tables_.rings.insert(side, tables_.keys[side][i]);
                else tables_.rings.skip(side);
            }
        }, many);
        arrived_ = place_[0] = place_[1] = 0;
        tasks_.clear();
        for (int side : {0, 1})
            for (size_t part = 0, parts = many ? pool.size() : 0; part < parts; part++)
                tasks_.push_back({side, batch.size(side) * part / parts, batch.size(side) * (part + 1) / parts});
        walks_.resize(tasks_.size());
        found.resize(std::max<size_t>(1, tasks_.size()));
        pool.run(tasks_.size(), [&](size_t t) { set_out(batch, t); });
    }

    bool walk(const Batch& batch, size_t enough, Pool& pool) override {
        for (Steps& some : found) some.n = 0;
        if (tasks_.empty()) return one_by_one(batch, enough);
        std::vector<u64> steps(tasks_.size());
        pool.run(tasks_.size(), [&](size_t t) { steps[t] = go_on(t, enough); });
        for (u64 some : steps) examined += some;
        return std::all_of(walks_.begin(), walks_.end(), [](const auto& walks) { return walks.empty(); });
    }

    void clear() override { tables_.rings.clear(); }
    size_t bytes() const override { return tables_.rings.bytes(); }

private:
    // Find the chains of a task's arrivals.
    void set_out(const Batch& batch, size_t t) {
        auto [side, from, to] = tasks_[t];
        const Rings<K>& rings = tables_.rings;
        auto& walks = walks_[t];
        walks.resize(to - from);
        size_t kept = 0;
        for (size_t i = from; i < to; i++) {
            rings.prefetch(tables_.keys[side][i + AHEAD]);
            K key = tables_.keys[side][i];
            u64 start = batch.start[side][i];
            u32 at = rings.head(1 - side, key);
            walks[kept] = {key, u32(batch.first[side] + i), at, u32(start), u32(batch.stop[side][i] - start)};
            kept += tables_.usable[side][i] & Rings<K>::alive(at, u32(start));
        }
        walks.resize(kept);
    }

    // Take steps until enough is found. Those that go on are moved to the front, over those that have
    // been read. Returns how many steps.
    u64 go_on(size_t t, size_t enough) {
        auto& walks = walks_[t];
        int side = tasks_[t].side;
        const Rings<K>& rings = tables_.rings;
        Steps& out = found[t];
        u64 steps = 0;
        while (walks.size() && out.n < enough) {
            size_t kept = 0, n = walks.size();
            out.room(n + 1);  // the last is written, and may not count
            u32 *who = &out.at[side][out.n], *partner = &out.at[1 - side][out.n];
            for (size_t i = 0; i < n; i++) {
                if (i + AHEAD < n) rings.prefetch_at(1 - side, walks[i + AHEAD].at);
                Walk walk = walks[i];
                const auto& slot = rings.slot(1 - side, walk.at);
                *who = walk.who;
                *partner = walk.at;
                bool hit = (slot.key == walk.key) & (u32(walk.at - walk.start) < walk.size);
                who += hit;
                partner += hit;
                walk.at = slot.next;
                walks[kept] = walk;
                kept += Rings<K>::alive(walk.at, walk.start);
            }
            out.n = who - out.at[side].data();
            steps += n;
            walks.resize(kept);
        }
        return steps;
    }

    bool one_by_one(const Batch& batch, size_t enough) {
        Steps& out = found[0];
        size_t n = batch.sides.size();
        for (; arrived_ < n && out.n < enough; arrived_++) {
            int side = batch.sides[arrived_];
            size_t mine = place_[side]++;
            u32 who = u32(batch.first[side] + mine);
            examined += tables_.meet(side, mine, batch.start[side][mine], [&](u64 partner) {
                out.add(side, who, u32(partner));
            });
        }
        return arrived_ == n;
    }
};

}  // namespace eddyline
