// The recent tuples of one side, by sequence number: ids, times, and the words that are looked at.
#pragma once
#include "late.hpp"

namespace eddyline {


// Where the parts of a record are, as `np.dtype(layout.fields)` has them.
struct Layout {
    size_t stride;
    std::vector<std::pair<size_t, size_t>> words;  // offset and size in bytes
    static constexpr size_t ID = 0, TIME = 4, VALID = 12;

    static u32 id(const u8* record) { return load<u32>(record + ID); }
    static i64 time(const u8* record) { return load<i64>(record + TIME); }
    static u64 valid(const u8* record) { return load<u64>(record + VALID); }
    u64 word(const u8* record, size_t number) const {
        auto [offset, size] = words[number];
        const u8* at = record + offset;
        switch (size) {
            case 1: return *at;
            case 2: return load<uint16_t>(at);
            case 4: return load<u32>(at);
            default: return load<u64>(at);
        }
    }

    template <class T> static T load(const u8* at) {
        T value;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
};

struct Window { int kind; u64 size; };  // 0 rows, 1 time, 2 unbounded

class Columns {
    size_t dropped_ = 0;
    u32 first_id_ = 0;

public:
    Layout layout;
    Window window;
    bool timed = false;
    bool consecutive = true;  // the ids
    std::vector<bool> kept;  // words that a predicate looks at
    std::vector<u32> ids;
    std::vector<i64> times;
    bool late = false;         // times may fall
    std::vector<i64> latest;   // then: the latest time up to each tuple
    std::vector<u64> valid;
    std::vector<std::vector<u64>> words;
    u64 base = 0, count = 0;  // sequence numbers: of the first tuple kept, of the next to come
    bool keeps_valid = false;
    u64 young = 0;            // of a window of time: the first tuple that was young last time

    void append(const u8* records, size_t n) {
        size_t before = ids.size(), stride = layout.stride;
        ids.resize(before + n);
        u32 next = before ? ids[before - 1] + 1 : n ? Layout::id(records) : 0;
        if (!before) first_id_ = next - u32(count);
        for (size_t i = 0; i < n; i++) {
            ids[before + i] = Layout::id(records + i * stride);
            consecutive &= ids[before + i] == u32(next + i);
        }
        if (timed)
            for (size_t i = 0; i < n; i++) times.push_back(Layout::time(records + i * stride));
        for (size_t i = times.size() - n; late && i < times.size(); i++)
            latest.push_back(i ? std::max(latest[i - 1], times[i]) : times[i]);
        if (keeps_valid)
            for (size_t i = 0; i < n; i++) valid.push_back(Layout::valid(records + i * stride));
        for (size_t w = 0; w < kept.size(); w++)
            if (kept[w])
                for (size_t i = 0; i < n; i++)
                    words[w].push_back(layout.word(records + i * stride, w));
        count += n;
    }

    // Let tuples pass that are neither stored here nor looked up: only their number is known. Their
    // place is held as long as it has neighbours; times are then as early as they may be, so that
    // they never keep a tuple behind them from expiring.
    void pass(u64 n) {
        if (ids.empty()) {
            base = count += n;
            young = std::max(young, base);
            return;
        }
        for (u64 i = 0; i < n; i++) ids.push_back(ids.back() + 1);
        if (timed) times.resize(ids.size(), times.back());
        if (keeps_valid) valid.resize(ids.size());
        for (size_t w = 0; w < kept.size(); w++)
            if (kept[w]) words[w].resize(ids.size());
        count += n;
    }

    // Ids that follow each other need not be looked up.
    u32 id(u64 sequence) const {
        return consecutive ? first_id_ + u32(sequence) : ids[sequence - base];
    }
    // Ids of many, by the low bits of their sequence numbers.
    void ids_of(const u32* low, size_t n, u32* to) const {
        if (consecutive) for (size_t i = 0; i < n; i++) to[i] = low[i] + first_id_;
        else for (size_t i = 0; i < n; i++) to[i] = ids[u32(low[i] - u32(base))];
    }
    u64 word(u64 sequence, size_t number) const { return words[number][sequence - base]; }

    // Where the window begins for an arrival that sees the first `stop` tuples. Arrivals ask in
    // order of time.
    u64 start(u64 stop, i64 now) {
        if (window.kind == 0) return stop > window.size ? stop - window.size : 0;
        if (window.kind == 2) return 0;
        if (late) return std::min(first_near(now), stop);
        // A difference of two times may need 64 bits without a sign.
        while (young < stop && u64(now) - u64(times[young - base]) > window.size) young++;
        return std::min(young, stop);
    }

    // The same where times may fall, and arrivals ask in any order: what is before it is too old,
    // and some of what follows may be. Searched for from where the last one was found.
    u64 first_near(i64 now) {
        u64 low = oldest(), high = count, at = std::clamp(young, low, high);
        auto old = [&](u64 sequence) { return beyond(now, latest[sequence - base], window.size); };
        if (at < high && old(at)) {
            low = at + 1;
            for (u64 step = 1; low + step < high; low += step, step *= 2)
                if (!old(low + step - 1)) { high = low + step - 1; break; }
        } else {
            high = at;
            for (u64 step = 1; high - low > step; high -= step, step *= 2)
                if (old(high - step)) { low = high - step + 1; break; }
        }
        while (low < high) {
            u64 middle = low + (high - low) / 2;
            if (old(middle)) low = middle + 1; else high = middle;
        }
        return young = low;
    }

    // The first tuple that may still be asked for.
    u64 oldest() const { return base + dropped_; }

    // Forget what is below a sequence number. Room is reclaimed when half of it, or all, is unused.
    void drop(u64 below) {
        below = std::min(below, count);
        if (below > base + dropped_) dropped_ = below - base;
        if (dropped_ < ids.size() && (dropped_ < 4096 || dropped_ < ids.size() / 2)) return;
        auto cut = [&](auto& column) {
            if (column.size()) column.erase(column.begin(), column.begin() + dropped_);
        };
        cut(ids);
        cut(times);
        cut(latest);
        cut(valid);
        for (auto& column : words) cut(column);
        base += dropped_;
        young = std::max(young, base);
        dropped_ = 0;
    }

    void clear() {
        ids.clear(); times.clear(); latest.clear(); valid.clear();
        for (auto& column : words) column.clear();
        base = count = young = dropped_ = 0;
        consecutive = true;
    }

    size_t bytes() const {
        size_t all = 4 * ids.capacity() + 8 * (times.capacity() + latest.capacity() + valid.capacity());
        for (const auto& column : words) all += 8 * column.capacity();
        return all;
    }
};

}  // namespace eddyline
