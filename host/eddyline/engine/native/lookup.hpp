// One conjunction of a join: an index for each side, and what a batch finds in them.
#pragma once
#include "batch.hpp"
#include "chain.hpp"
#include "pool.hpp"

namespace eddyline {

// Candidates: for each record, tuples of the other side than the one that looked up.
struct Candidates {
    const class Lookup* lookup;
    std::vector<Record> records;
    std::vector<u32> own;   // where refs are copies
    const u32* refs;
    u64 base;               // refs are the low bits of sequence numbers from here on
    int side;               // which looked up
    bool within;            // both are of the batch: refs are places
    bool old;               // some may have left the window
    bool aged = false;      // of tuples in any order: some may be too far apart in time
};

class Lookup {
public:
    Path path;
    explicit Lookup(Path&& p) : path(std::move(p)) {}
    virtual ~Lookup() = default;
    // Make the keys of one side's tuples, or read those that `write` has written.
    virtual void prepare(const Batch&, const Layout&, int side, const u8* written) = 0;
    virtual void write(const Layout&, const u8* records, size_t n, int side, Array<u8>& to) = 0;
    virtual size_t tasks(const Batch&, size_t threads) = 0;
    virtual void probe(const Batch&, size_t task) = 0;
    virtual void collect(const Batch&, std::vector<Candidates>&) = 0;
    virtual void insert(const Batch&, int side, const Columns&) = 0;
    virtual void expire(int side, u64 below) = 0;
    virtual void set_target(int side, size_t tuples) = 0;
    virtual void set_kind(Kind) = 0;
    virtual Kind kind() const = 0;
    virtual void clear() = 0;
    virtual size_t bytes() const = 0;
    virtual void report(u64*) const = 0;
    virtual void held(u64*) const = 0;
    u64 examined = 0;
};

template <class K> class LookupOf final : public Lookup {
    struct Task { int side; int subwindow; size_t from, to; bool aside = false; };  // subwindow -1: within the batch
    struct Space { Found found; Items<K> items; Spread<K> spread; };

    Chain<K> chains_[2];
    Keys<K> keys_[2], shares_[2];  // all of the batch, and what is stored of it
    Sorter<K> sorters_[2];
    Subwindow<K> alone_;           // S in the batch
    std::vector<Task> tasks_;
    std::vector<Space> spaces_;

public:
    explicit LookupOf(Path&& p) : Lookup(std::move(p)), chains_{{path, 0}, {path, 1}} {}

    void prepare(const Batch& batch, const Layout& layout, int side, const u8* written) override {
        keys_[side].items.clear();
        shares_[side].items.clear();
        // Nothing is stored, and there is nothing to look up.
        if (batch.shared && !batch.stored[0] && !batch.stored[1] && chains_[1 - side].subwindows.empty()) return;
        if (written) read(written, batch.size(side), side);
        else make(layout, batch.records[side].data(), batch.size(side), side);
        if (batch.shared && batch.stored[side] && !whole(batch, side)) keep(keys_[side], batch.stores[side], shares_[side]);
    }

    void write(const Layout& layout, const u8* records, size_t n, int side, Array<u8>& to) override {
        Keys<K>& keys = keys_[side];
        make(layout, records, n, side);
        u64 count = keys.items.size();
        auto put = [&](const auto* from, size_t some) {
            size_t at = to.size(), bytes = some * sizeof *from;
            to.resize(at + rounded(bytes));
            std::copy_n(reinterpret_cast<const u8*>(from), bytes, to.data() + at);
        };
        put(&count, 1);
        put(keys.items.a.data(), count);
        if (path.intervals(side)) put(keys.items.b.data(), count);
        put(keys.items.ref.data(), count);
        if (!path.strips()) return;
        put(keys.x_low.data(), n);
        put(keys.x_high.data(), n);
    }

    size_t tasks(const Batch& batch, size_t threads) override {
        tasks_.clear();
        for (int side : {0, 1}) {
            chains_[1 - side].note_lookups(keys_[side]);
            size_t n = keys_[side].items.size();
            size_t parts = n < 1024 ? 1 : threads;
            for (size_t w = 0; n && w < chains_[1 - side].subwindows.size(); w++) {
                const Subwindow<K>& one = chains_[1 - side].subwindows[w];
                for (size_t part = 0; !apart(batch, side, one.oldest, one.newest) && part < parts; part++)
                    tasks_.push_back({side, int(w), n * part / parts, n * (part + 1) / parts});
                if (one.aside && !apart(batch, side, one.aside_oldest, one.newest))
                    tasks_.push_back({side, int(w), 0, n, true});
            }
        }
        // One lookup finds all pairs of a batch: that of R, or of what is stored of it here.
        size_t n = own(batch, 0).items.size();
        if (n && keys_[1].items.size()) {
            alone_ = chains_[1].alone(keys_[1]);
            tasks_.push_back({0, -1, 0, n});
        }
        if (spaces_.size() < tasks_.size()) spaces_.resize(tasks_.size());
        return tasks_.size();
    }

    void probe(const Batch& batch, size_t number) override {
        const Task& task = tasks_[number];
        Space& space = spaces_[number];
        space.found.clear();
        const Chain<K>& chain = chains_[1 - task.side];
        bool within = task.subwindow < 0;
        const Subwindow<K>& one = within ? alone_ : chain.subwindows[task.subwindow];
        const Keys<K>& keys = within ? own(batch, 0) : keys_[task.side];
        chain.probe(one, task.aside ? *one.aside : *one.structure, keys, task.from, task.to, space.found, space.items, space.spread);
    }

    void collect(const Batch& batch, std::vector<Candidates>& all) override {
        for (size_t i = 0; i < tasks_.size(); i++) {
            const Task& task = tasks_[i];
            Found& found = spaces_[i].found;
            examined += found.examined;
            bool within = task.subwindow < 0;
            const Subwindow<K>& one = within ? alone_ : chains_[1 - task.side].subwindows[task.subwindow];
            bool old = !batch.reach.on && (within || one.first < batch.most_start[task.side]);
            bool aged = batch.reach.on && (within || task.aside || !batch.reach.all(task.side, batch.oldest[task.side], batch.newest[task.side], one.oldest, one.newest));
            const u32* refs = (task.aside ? *one.aside : *one.structure).refs();
            for (const Record& r : found.ranges) examined += r.end - r.begin;
            if (found.ranges.size())
                all.push_back({this, std::move(found.ranges), {}, refs, one.first, task.side, within, old, aged});
            if (found.copies.size()) {
                all.push_back({this, std::move(found.copies), std::move(found.copied), nullptr, one.first, task.side, within, old, aged});
                all.back().refs = all.back().own.data();
            }
        }
    }

    void insert(const Batch& batch, int side, const Columns& columns) override {
        if (!batch.stored[side]) return;
        u64 base = batch.first[side];
        Stored some{base, base, base + batch.size(side), batch.stored[side], batch.oldest[side], batch.newest[side]};
        if (batch.shared) {
            const auto& stores = batch.stores[side];
            some.first += std::find(stores.begin(), stores.end(), 1) - stores.begin();
            some.last -= std::find(stores.rbegin(), stores.rend(), 1) - stores.rbegin();
        }
        chains_[side].insert(own(batch, side), some, columns);
    }

    // Store tuples that another structure has held: what is below `last`, by the low bits of their
    // sequence numbers.
    void restore(int side, Items<K>& items, u64 first, u64 last, const Columns& columns) {
        sorters_[side].sort(items);
        Keys<K> keys;
        std::swap(keys.items, items);
        u64 tuples = keys.items.size();
        if (tuples) chains_[side].insert(keys, {0, first, last, tuples}, columns);
    }

    void expire(int side, u64 below) override { chains_[side].expire(below); }
    void set_target(int side, size_t tuples) override { chains_[side].set_target(tuples); }
    void set_kind(Kind kind) override { for (auto& chain : chains_) chain.kind = kind; }
    Kind kind() const override { return chains_[0].kind; }
    void clear() override { for (auto& chain : chains_) chain.clear(); }
    size_t bytes() const override { return chains_[0].bytes() + chains_[1].bytes(); }
    void report(u64* to) const override {
        for (const auto& chain : chains_) {
            *to++ = chain.subwindows.size();
            *to++ = chain.target();
            *to++ = chain.sealed;
            *to++ = chain.expired;
            *to++ = u64(chain.error * 1e6);
            *to++ = u64(chain.drift * 1e6);
            *to++ = chain.aside;
        }
    }

    void held(u64* to) const override { for (const auto& chain : chains_) { chain.held(to); to += 4; } }

private:
    void make(const Layout& layout, const u8* record, size_t n, int side) {
        Keys<K>& keys = keys_[side];
        keys.items.clear();
        if (path.strips()) {
            keys.x_low.resize(n);
            keys.x_high.resize(n);
        }
        keys.items.reserve(n);
        for (size_t i = 0; i < n; i++, record += layout.stride) {
            if ((Layout::valid(record) & path.needed[side]) != path.needed[side]) continue;
            if (path.strips()) {
                auto [x_low, x_high] = path.bounds(layout, record, side, 0);
                auto [low, high] = path.bounds(layout, record, side, 1);
                if (x_low > x_high || low > high) continue;
                keys.x_low[i] = x_low;
                keys.x_high[i] = x_high;
                keys.items.push(K(low), K(high), u32(i));  // without its strip
                continue;
            }
            u64 low = 0, high = 0;
            if (path.dimensions.size()) {
                std::tie(low, high) = path.bounds(layout, record, side, 0);
                if (low > high) continue;
            }
            auto [a, b] = path.interval(path.group.empty() ? 0 : path.group_key(layout, record, side), low, high);
            keys.items.push(K(a), K(b), u32(i));
        }
        if (sorted()) sorters_[side].sort(keys.items);
    }

    void read(const u8* from, size_t n, int side) {
        Keys<K>& keys = keys_[side];
        auto get = [&](auto& to, size_t some) {
            to.resize(some);
            size_t bytes = some * sizeof to[0];
            std::copy_n(from, bytes, reinterpret_cast<u8*>(to.data()));
            from += rounded(bytes);
        };
        std::array<u64, 1> count;
        std::copy_n(from, sizeof count, reinterpret_cast<u8*>(count.data()));
        from += sizeof count;
        get(keys.items.a, count[0]);
        if (path.intervals(side)) get(keys.items.b, count[0]);
        else keys.items.b = keys.items.a;
        get(keys.items.ref, count[0]);
        if (!path.strips()) return;
        get(keys.x_low, n);
        get(keys.x_high, n);
    }
    static size_t rounded(size_t bytes) { return (bytes + 7) & ~size_t(7); }

    // Whether no tuple of the batch meets one with a time between these.
    static bool apart(const Batch& batch, int side, i64 oldest, i64 newest) {
        return batch.reach.on && batch.reach.none(side, batch.oldest[side], batch.newest[side], oldest, newest);
    }
    bool sorted() const { return chains_[0].kind != Kind::hash; }
    static bool whole(const Batch& batch, int side) { return batch.stored[side] == batch.size(side); }
    const Keys<K>& own(const Batch& batch, int side) const {
        return batch.shared && !whole(batch, side) ? shares_[side] : keys_[side];
    }

    static void keep(const Keys<K>& keys, const std::vector<u8>& stores, Keys<K>& kept) {
        const Items<K>& all = keys.items;
        Items<K>& some = kept.items;
        some.resize(all.size());
        size_t n = 0;
        for (size_t i = 0; i < all.size(); i++) {  // without a branch, which nobody could foretell
            some.a[n] = all.a[i];
            some.b[n] = all.b[i];
            some.ref[n] = all.ref[i];
            n += stores[all.ref[i]];
        }
        some.resize(n);
        kept.x_low = keys.x_low;
        kept.x_high = keys.x_high;
    }
};

}  // namespace eddyline
