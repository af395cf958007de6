// A windowed join of two streams through indexes, behind a plain C interface.
//
// A batch goes through four steps: its tuples become keys; each side's are looked up in the other's
// index, and both sides' parts of the batch in each other; the candidates become pairs, as they are
// pulled; and last, before the next batch, the tuples enter their own index. So indexes never
// change while candidates point into them.
#include <cmath>
#include <deque>
#include <stdexcept>
#include <numeric>

#include "alone.hpp"
#include "chained.hpp"
#include "equality.hpp"
#include "grid.hpp"

using namespace eddyline;

namespace {

constexpr size_t PULL = size_t(1) << 20;     // pairs handed over at a time
constexpr size_t GROUP = size_t(1) << 23;    // candidates that are put in order at a time
constexpr size_t SLICE = size_t(1) << 12;    // arrivals whose keys stay in a core's cache
constexpr size_t MANY = 16;                  // pairs per arrival from which on ranges are better than cells
constexpr size_t SPARE = 64;                 // batches whose memory is used again
constexpr u64 MOST_LIVE = u64(1) << 31;      // tuples of a side whose ages are compared modulo 2^32
constexpr size_t LEAST = size_t(1) << 14;    // tuples of a subwindow where the window has no number

// Numbers that describe a join, one after the other; `eddyline.engine.indexed` writes them.
class Reader {
    const i64 *at_, *end_;

public:
    Reader(const i64* at, size_t n) : at_(at), end_(at + n) {}
    i64 next() {
        if (at_ == end_) throw std::runtime_error("the description of the join is too short");
        return *at_++;
    }
};

struct Pairs { Array<u32> r, s; Array<u64> at; };

class Join {
    Columns columns_[2];
    std::vector<std::unique_ptr<Lookup>> lookups_;
    // Instead of lookups, where arrivals can be looked up one by one: without order, and with it.
    std::unique_ptr<ByArrival> by_arrival_;
    std::unique_ptr<Chained> chained_;
    bool grouped_, inner_;
    size_t subwindows_;  // per window or share of it, or 0 to choose
    size_t shares_;      // joins that each store a share of the tuples, or 0 if this one stores all
    Pool pool_;
    Array<u8> written_;  // keys for other joins
    std::deque<Batch> waiting_;
    std::vector<Batch> spare_;  // memory of batches that have ended: new memory is dear
    Batch batch_;
    bool open_ = false;   // a batch has been looked up and its pairs are being pulled
    std::vector<Candidates> candidates_;
    u64 arrivals_ = 0, closed_ = 0, pairs_ = 0;
    u64 seen_arrivals_ = 0, seen_pairs_ = 0;  // when it was last asked whether there are many
    bool gave_way_ = false;                   // cells have become ranges
    double batch_size_ = 0;
    // Without order: where to go on.
    size_t source_ = 0, record_ = 0, offset_ = 0;
    std::vector<Program> programs_;
    // In order of arrival: candidates per arrival, where to go on, and the group at hand.
    std::vector<u64> load_;
    size_t from_ = 0, to_ = 0;
    Pairs group_;
    std::vector<u64> ends_;
    // By arrival: the place of the next tuple on each side, and what was found.
    size_t place_[2];
    bool ended_ = false;  // without order: nothing more is found for the batch
    std::vector<std::pair<u32, u64>> partners_;
    Reach reach_;                             // where tuples may come in any order of time
    i64 watermark_[2] = {EARLIEST, EARLIEST};

public:
    Join(const i64* spec, size_t n, size_t threads) : pool_(threads) {
        Reader in(spec, n);
        i64 order = in.next();
        grouped_ = order > 0;
        inner_ = order == 2;
        subwindows_ = in.next();
        shares_ = in.next();
        for (Columns& side : columns_) {
            side.layout.stride = in.next();
            side.window.kind = in.next();
            side.window.size = u64(in.next());
            side.timed = in.next();
            side.keeps_valid = in.next();
            size_t words = in.next();
            for (size_t w = 0; w < words; w++) {
                size_t offset = in.next(), size = in.next();
                side.layout.words.push_back({offset, size});
                side.kept.push_back(in.next());
            }
            side.words.resize(words);
        }
        i64 paths = in.next();
        for (i64 i = 0; i < paths; i++) read_path(in, paths == 1 && !shares_);
    }

    // Take arrivals. All of them are looked up; where `stores` tells of a side's tuples, those with a
    // zero are not stored, and meet nobody who comes later. `written` are their keys, as `keys` of another
    // join of the same plan has made them, or nothing; they are read when the batch is looked up.
    void push(const u8* sides, size_t n, const u8* r, const u8* s, const u8* const stores[2], const u8* written) {
        size_t slice = by_arrival_ ? pool_.size() * SLICE : n;  // threads have to be worth waking up
        // All that is looked up at once meets its own kind, however far apart: not more than windows hold.
        if (!by_arrival_ && n > SLICE && !stores[0] && !written) {
            size_t s_count = std::accumulate(sides, sides + n, size_t(0));
            slice = std::max(SLICE, held(0, r, n - s_count) + held(1, s, s_count));
        }
        for (size_t from = 0, some; from < n; from += some) {
            some = std::min(slice, n - from);
            waiting_.push_back(batch_of(sides + from, some, r, s, stores));
            r += waiting_.back().records[0].size();
            s += waiting_.back().records[1].size();
        }
        if (written && n) waiting_.back().written = written;
    }

    // Make the keys of a batch for joins that store a share each: the size of every part, then the parts.
    const Array<u8>& keys(const u8* r, size_t r_count, const u8* s, size_t s_count) {
        const u8* records[2] = {r, s};
        size_t counts[2] = {r_count, s_count}, parts = 2 * lookups_.size();
        written_.clear();
        written_.resize(8 * parts);
        for (size_t i = 0; i < parts; i++) {
            u64 before = written_.size();
            lookups_[i / 2]->write(columns_[i & 1].layout, records[i & 1], counts[i & 1], i & 1, written_);
            u64 bytes = written_.size() - before;
            std::memcpy(written_.data() + 8 * i, &bytes, 8);
        }
        return written_;
    }

    // Store tuples without looking anything up, as if they had come and gone through earlier.
    void load(const u8* sides, size_t n, const u8* r, const u8* s, const u8* const stores[2]) {
        if (open_ || !waiting_.empty()) throw std::runtime_error("tuples are loaded between batches");
        if (by_arrival_ || chained_) throw std::runtime_error("only engines with a share can be loaded");
        batch_ = batch_of(sides, n, r, s, stores);
        enter();
        bool any = false;
        for (Columns& side : columns_)
            if (side.timed && side.times.size()) {
                batch_.now = any ? std::max(batch_.now, side.times.back()) : side.times.back();
                any = true;
            }
        prepare();
        end();
    }

    // Let tuples pass of which nothing is to be known but their number.
    void pass(u64 r, u64 s) {
        if (open_ || !waiting_.empty()) throw std::runtime_error("tuples pass between batches");
        columns_[0].pass(r);
        columns_[1].pass(s);
    }

    // Let tuples come in any order of time, from the first on. Returns whether that can be: pairs must
    // not have an order either, and a window must not count tuples.
    bool accept_late() {
        if (grouped_ || shares_ || !columns_[0].window.kind || !columns_[1].window.kind) return false;
        reach_.on = columns_[0].timed;
        for (int side : {0, 1}) {
            columns_[side].late = reach_.on;
            reach_.of[side] = columns_[side].window.kind == 2 ? ~u64(0) : columns_[side].window.size;
        }
        return true;
    }

    // Say that no tuple of R or S below these times follows what has been pushed.
    void watermark(i64 r, i64 s) {
        i64 times[2] = {r, s};
        Batch* last = waiting_.size() ? &waiting_.back() : open_ ? &batch_ : nullptr;
        std::copy(times, times + 2, last ? last->watermark : watermark_);
        if (!last) expire();
    }

    // Forget what is below a sequence number, though no arrival has shown that it is too old.
    void expire(u64 r, u64 s) {
        u64 below[2] = {r, s};
        for (int side : {0, 1}) {
            for (auto& lookup : lookups_) lookup->expire(side, below[side]);
            columns_[side].drop(below[side]);
        }
    }

private:
    // About how many of a side's tuples its window holds, where these come, but not more than these.
    size_t held(int side, const u8* records, size_t n) const {
        const Window& window = columns_[side].window;
        size_t stride = columns_[side].layout.stride;
        if (window.kind == 0) return size_t(std::min<u64>(window.size, n));
        if (window.kind == 2 || n < 2) return n;
        i64 first = Layout::time(records), last = Layout::time(records + (n - 1) * stride);
        double span = double(last) - double(first);
        return span > double(window.size) ? size_t(double(n) * (double(window.size) / span)) : n;
    }

    Batch batch_of(const u8* sides, size_t n, const u8* r, const u8* s, const u8* const stores[2]) {
        Batch batch;
        if (!spare_.empty()) {
            batch = std::move(spare_.back());
            spare_.pop_back();
        }
        batch.sides.assign(sides, sides + n);
        size_t s_count = std::accumulate(sides, sides + n, size_t(0));
        batch.records[0].assign(r, r + (n - s_count) * columns_[0].layout.stride);
        batch.records[1].assign(s, s + s_count * columns_[1].layout.stride);
        size_t counts[2] = {n - s_count, s_count};
        batch.shared = stores[0];
        for (int side : {0, 1}) {
            batch.stored[side] = counts[side];
            if (!batch.shared) continue;
            batch.stores[side].assign(stores[side], stores[side] + counts[side]);
            batch.stored[side] = std::count(batch.stores[side].begin(), batch.stores[side].end(), 1);
        }
        return batch;
    }

public:

    // Get the next part of the results ready. Returns false if there is none; else sets how many
    // pairs there are at the most, and how many arrivals they belong to (0 without order).
    bool next(u64* most, u64* arrivals) {
        if (!open_ && waiting_.empty()) return false;
        if (!open_) reconsider();
        if (by_arrival_) {
            group_.r.clear();
            group_.s.clear();
            do *most = next_steps(); while (*most < PULL / 2 && (open_ || !waiting_.empty()));
            *arrivals = 0;
            return true;
        }
        if (!open_) begin();
        if (grouped_) {
            if (chained_) next_arrivals();
            else next_group();
            *most = group_.r.size();
            *arrivals = to_ - from_;
        } else {
            size_t bound = 0;
            size_t record = record_, skip = offset_;
            for (size_t i = source_; i < candidates_.size() && bound < PULL; i++, record = 0)
                for (; record < candidates_[i].records.size() && bound < PULL; record++, skip = 0)
                    bound += candidates_[i].records[record].end - candidates_[i].records[record].begin - skip;
            *most = std::min(bound, PULL);
            *arrivals = 0;
        }
        return true;
    }

    // Hand over what `next` has announced; returns how many pairs. The batch may end with them.
    u64 take(u32* r, u32* s, u64* at, u64* ends, u64* starts, u64* stops, u64 most) {
        size_t n;
        if (by_arrival_) {
            n = group_.r.size();
            pool_.run(2, [&](size_t side) {
                const auto& some = side ? group_.s : group_.r;
                std::copy(some.begin(), some.end(), side ? s : r);
            }, n >= SLICE);
            if (most > n) n += take_steps(r + n, s + n);
        } else if (grouped_) {
            n = group_.r.size();
            std::copy(group_.r.begin(), group_.r.end(), r);
            std::copy(group_.s.begin(), group_.s.end(), s);
            std::copy(group_.at.begin(), group_.at.end(), at);
            std::copy(ends_.begin(), ends_.end(), ends);
            size_t place[2] = {0, 0};
            for (size_t i = 0; i < to_; i++) {
                int side = batch_.sides[i];
                size_t j = place[side]++;
                if (i < from_) continue;
                *starts++ = batch_.start[side][j];
                *stops++ = batch_.stop[side][j];
            }
            closed_ += to_ - from_;
            from_ = to_;
            if (to_ == batch_.sides.size()) end();
        } else {
            n = expand(r, s, most);
            if (source_ == candidates_.size()) {
                closed_ += batch_.sides.size();
                end();
            }
        }
        pairs_ += n;
        return n;
    }

    // How many pairs all has that was pushed, and in how many records, without making them. Exact
    // where keys decide all and no candidate is too old; an upper bound otherwise.
    void ranges(u64* pairs, u64* records) {
        *pairs = *records = 0;
        for (u64 most, none; by_arrival_ && next(&most, &none); *records = *pairs += most)
            if (most > group_.r.size() && ended_) end();
        while (open_ || !waiting_.empty()) {
            if (!open_) begin();
            while (chained_ && to_ < batch_.sides.size()) {
                from_ = to_;
                next_arrivals();
                *pairs = *records += group_.r.size();
            }
            for (const auto& some : candidates_) {
                *records += some.records.size();
                for (const Record& one : some.records) *pairs += one.end - one.begin;
            }
            closed_ += batch_.sides.size();
            end();
        }
    }

    void flush() {
        waiting_.clear();
        open_ = false;
        for (auto& lookup : lookups_) lookup->clear();
        if (by_arrival_) by_arrival_->clear();
        if (chained_) chained_->clear();
        for (auto& side : columns_) side.clear();
        watermark_[0] = watermark_[1] = EARLIEST;
    }

    u64 closed() const { return closed_; }
    bool between() const { return !open_; }
    bool gave_way() const { return gave_way_; }
    void set_kind(size_t path, int kind) { lookups_[path]->set_kind(Kind(kind)); }
    void set_subwindows(size_t count) { subwindows_ = count; }

    // Of each side: tuples held, the oldest and behind the newest, whether the newest subwindow is full.
    void held(u64* to) const { lookups_[0]->held(to); }

    // Tuples, pairs, candidates, bytes, then seven numbers for each side of each lookup.
    void report(u64* to) const {
        u64 examined = 0, bytes = columns_[0].bytes() + columns_[1].bytes();
        for (const auto& lookup : lookups_) { examined += lookup->examined; bytes += lookup->bytes(); }
        if (by_arrival_) { examined = by_arrival_->examined; bytes += by_arrival_->bytes(); }
        if (chained_) { examined = chained_->examined; bytes += chained_->bytes(); }
        *to++ = arrivals_;
        *to++ = pairs_;
        *to++ = examined;
        *to++ = bytes;
        for (const auto& lookup : lookups_) { lookup->report(to); to += 14; }
    }

private:
    void read_path(Reader& in, bool alone) {
        Path path;
        path.kind = Kind(in.next());
        path.wide = in.next();
        path.narrow = in.next();
        path.hashed = in.next();
        path.complement = in.next();
        path.group_bits = in.next();
        path.range_bits = in.next();
        path.truncated = in.next();
        path.sigma = in.next() / 1000.0;
        path.buffer = in.next();
        path.width = in.next();
        for (u64& needed : path.needed) needed = u64(in.next());
        for (i64 i = in.next(); i > 0; i--) {
            int r = in.next(), s = in.next(), width = in.next();
            path.group.push_back({r, s, width});
        }
        for (i64 i = in.next(); i > 0; i--) {
            Dimension d;
            for (int side : {0, 1}) { d.low[side] = in.next(); d.high[side] = in.next(); }
            path.dimensions.push_back(d);
        }
        for (i64 i = in.next(); i > 0; i--) {
            i64 op = in.next(), x = in.next(), y = in.next(), z = in.next();
            path.residual.lines.push_back({op, x, y, z});
        }
        if (alone && path.kind == Kind::hash) {
            if (path.wide) equality<u64>(std::move(path));
            else equality<u32>(std::move(path));
            return;
        }
        if (alone && path.kind == Kind::grid) {
            by_arrival_ = path.strips() ? grid<2>(std::move(path)) : grid<1>(std::move(path));
            return;
        }
        if (path.wide) lookups_.push_back(std::make_unique<LookupOf<u64>>(std::move(path)));
        else lookups_.push_back(std::make_unique<LookupOf<u32>>(std::move(path)));
    }

    template <class K> void equality(Path&& path) {
        if (grouped_) chained_ = std::make_unique<ChainedOf<K>>(std::move(path));
        else by_arrival_ = std::make_unique<EqualityOf<K>>(std::move(path));
    }
    template <int D> std::unique_ptr<ByArrival> grid(Path&& path) {
        if (path.narrow) return std::make_unique<GridOf<u32, D>>(std::move(path), pool_.size());
        return std::make_unique<GridOf<u64, D>>(std::move(path), pool_.size());
    }

    // Give a batch its sequence numbers.
    void enter() {
        pool_.run(2, [&](size_t side) {
            Columns& own = columns_[side];
            batch_.first[side] = own.count;
            own.append(batch_.records[side].data(), batch_.records[side].size() / own.layout.stride);
            size_t count = own.count - batch_.first[side];
            batch_.arrival[side].resize(count);
            batch_.start[side].resize(count);
            batch_.stop[side].resize(count);
        }, batch_.sides.size() >= SLICE);
        for (int side : {0, 1})
            if ((by_arrival_ || chained_) && columns_[side].count - columns_[side].oldest() > MOST_LIVE)
                throw std::runtime_error(std::string("the window of ") + "RS"[side] + " has more than " +
                                         std::to_string(MOST_LIVE) + " rows at once: take a shorter one, or engine bisort");
        size_t n = batch_.sides.size();
        arrivals_ += n;
        batch_size_ = batch_size_ ? 0.8 * batch_size_ + 0.2 * n : n;
    }

    // Note whom each arrival of a side sees.
    void see(int side) {
        const Columns& own = columns_[side];
        Columns& others = columns_[1 - side];
        std::vector<u32>& arrival = batch_.arrival[side];
        size_t count = arrival.size();
        for (size_t i = 0, mine = 0; mine < count; i++) {  // sides come in any order: better no branch
            arrival[mine] = i;
            mine += batch_.sides[i] == side;
        }
        i64 oldest = LATEST, newest = EARLIEST;
        u64 most = 0;
        const i64* times = own.timed ? own.times.data() + (batch_.first[side] - own.base) : nullptr;
        for (size_t mine = 0; mine < count; mine++) {
            u64 stop = batch_.first[1 - side] + arrival[mine] - mine;
            i64 now = times ? times[mine] : 0;
            u64 start = others.start(stop, now);
            batch_.stop[side][mine] = stop;
            batch_.start[side][mine] = start;
            most = std::max(most, start);
            oldest = std::min(oldest, now);
            newest = std::max(newest, now);
        }
        batch_.most_start[side] = most;
        if (!times || !count) return;
        batch_.oldest[side] = oldest;
        batch_.newest[side] = newest;
    }

    void prepare() {
        size_t parts = 2 * lookups_.size();
        std::vector<const u8*> written(parts, nullptr);
        const u8* at = batch_.written ? batch_.written + 8 * parts : nullptr;
        for (size_t i = 0; at && i < parts; i++) {
            u64 bytes;
            std::memcpy(&bytes, batch_.written + 8 * i, 8);
            written[i] = at;
            at += bytes;
        }
        pool_.run(parts, [&](size_t i) {
            lookups_[i / 2]->prepare(batch_, columns_[i & 1].layout, i & 1, written[i]);
        });
    }

    void begin() {
        if (spare_.size() < SPARE) {
            batch_.clear();
            spare_.push_back(std::move(batch_));
        }
        batch_ = std::move(waiting_.front());
        waiting_.pop_front();
        enter();
        pool_.run(2, [&](size_t side) { see(side); }, batch_.sides.size() >= SLICE);
        batch_.reach = reach_;
        if (reach_.on) batch_.now = std::max(batch_.newest[0], batch_.newest[1]);
        else if (columns_[0].timed) batch_.now = columns_[batch_.sides.back()].times.back();
        prepare();
        candidates_.clear();
        for (auto& lookup : lookups_) {
            size_t tasks = lookup->tasks(batch_, pool_.size());
            pool_.run(tasks, [&](size_t i) { lookup->probe(batch_, i); });
            lookup->collect(batch_, candidates_);
        }
        if (by_arrival_) by_arrival_->begin(batch_, columns_, pool_);
        if (chained_) {
            chained_->prepare(batch_, columns_, pool_);
            place_[0] = place_[1] = 0;
        }
        open_ = true;
        source_ = record_ = offset_ = 0;
        from_ = to_ = 0;
        if (grouped_ && !chained_) weigh();
    }

    void end() {
        open_ = false;
        for (int side : {0, 1}) {
            if (!batch_.size(side) || lookups_.empty()) continue;
            size_t tuples = target(side);
            for (auto& lookup : lookups_) lookup->set_target(side, tuples);
        }
        pool_.run(2 * lookups_.size(), [&](size_t i) {
            lookups_[i / 2]->insert(batch_, i & 1, columns_[i & 1]);
        });
        for (int side : {0, 1}) watermark_[side] = std::max(watermark_[side], batch_.watermark[side]);
        expire();
    }

    // What the next arrival cannot see, none will.
    void expire() {
        for (int side : {0, 1}) {
            i64 next = reach_.on ? watermark_[1 - side] : batch_.now;
            u64 begin = columns_[side].start(columns_[side].count, next);
            for (auto& lookup : lookups_) lookup->expire(side, begin);
            columns_[side].drop(begin);
        }
    }

    // Tuples of a subwindow: large ones cost merging, many cost lookups. Of a window of W tuples and
    // batches of b per side, W/n/2b merges and n lookups per tuple are least at this n.
    size_t target(int side) {
        const Columns& columns = columns_[side];
        u64 seen = columns.count - columns_[side].start(columns.count, batch_.now);
        bool counted = columns.window.kind == 0;
        u64 tuples = counted ? columns.window.size : std::max<u64>(seen, 4 * LEAST);
        if (shares_) tuples = (tuples + shares_ - 1) / shares_;
        size_t n = subwindows_;
        if (!n) {
            bool strips = false, sorts = false;
            for (const auto& lookup : lookups_) {
                strips |= lookup->path.strips();
                sorts |= lookup->kind() == Kind::bisort;
            }
            double batch = std::max(batch_size_ / 2, double(lookups_[0]->path.buffer));
            // Only BI-Sort merges.
            if (sorts) n = size_t(std::sqrt(tuples / (2 * batch * (strips ? 80 : 30))) + 0.5);
            size_t least = !counted ? 4 : strips ? 1 : 2;  // over all shares
            if (shares_) least = std::max<size_t>(1, least / shares_);
            n = std::clamp<size_t>(n, least, 64);
        }
        return (tuples + n - 1) / n;
    }

    // Candidates per arrival: at the most, where both are of the batch.
    void weigh() {
        load_.assign(batch_.sides.size(), 0);
        for (const auto& some : candidates_)
            for (const Record& one : some.records) {
                load_[batch_.arrival[some.side][one.probe]] += one.end - one.begin;
                if (some.within)
                    for (u32 i = one.begin; i < one.end; i++)
                        load_[batch_.arrival[1][some.refs[i]]]++;
            }
    }

    bool near(u64 r, u64 s) const {
        return reach_.near(columns_[0].times[r - columns_[0].base], columns_[1].times[s - columns_[1].base]);
    }

    // Where there are many pairs, go on with ranges instead of cells.
    void reconsider() {
        u64 arrivals = arrivals_ - seen_arrivals_, pairs = pairs_ - seen_pairs_;
        if (!by_arrival_ || reach_.on || arrivals < LEAST) return;
        seen_arrivals_ = arrivals_;  // what was long ago says nothing
        seen_pairs_ = pairs_;
        if (pairs < MANY * arrivals) return;
        auto lookup = by_arrival_->sorted(columns_);
        if (!lookup) return;
        lookup->examined = by_arrival_->examined;
        lookups_.push_back(std::move(lookup));
        by_arrival_ = nullptr;
        gave_way_ = true;
    }

    // Find more partners of some arrivals, in any order. Few are written down, many wait to be taken.
    // Returns how many there are.
    size_t next_steps() {
        if (!open_) begin();
        ended_ = by_arrival_->walk(batch_, PULL, pool_);
        if (!by_arrival_->path.residual.empty() || reach_.on) test_steps();
        size_t before = group_.r.size(), more = 0;
        for (const Steps& some : by_arrival_->found) more += some.n;
        if (more < PULL / 2) {
            group_.r.resize(before + more);
            group_.s.resize(before + more);
            take_steps(group_.r.data() + before, group_.s.data() + before);
        }
        return before + more;
    }

    void test_steps() {
        pool_.run(by_arrival_->found.size(), [&](size_t i) {
            Steps& some = by_arrival_->found[i];
            Program test = by_arrival_->path.residual;
            u64 at[2][Program::CHUNK];
            u8 keep[Program::CHUNK];
            size_t kept = 0;
            for (size_t from = 0; from < some.n; from += Program::CHUNK) {
                size_t count = std::min(some.n - from, Program::CHUNK);
                for (int side : {0, 1}) {
                    u64 base = columns_[side].base;
                    for (size_t k = 0; k < count; k++) at[side][k] = base + u32(some.at[side][from + k] - u32(base));
                }
                if (test.empty()) std::fill(keep, keep + count, 1);
                else test.run(columns_[0], columns_[1], at[0], at[1], count, keep);
                for (size_t k = 0; reach_.on && k < count; k++) keep[k] &= near(at[0][k], at[1][k]);
                for (size_t k = 0; k < count; k++) {
                    for (auto& side : some.at) side[kept] = side[from + k];
                    kept += keep[k];
                }
            }
            some.n = kept;
        }, batch_.sides.size() >= SLICE);
    }

    // Write the ids of what was found, and go on with the next batch if this was all. Returns how many.
    size_t take_steps(u32* r, u32* s) {
        std::vector<size_t> begins(1, 0);
        for (const Steps& some : by_arrival_->found) begins.push_back(begins.back() + some.n);
        pool_.run(begins.size() - 1, [&](size_t i) {
            const Steps& some = by_arrival_->found[i];
            columns_[0].ids_of(some.at[0].data(), some.n, r + begins[i]);
            columns_[1].ids_of(some.at[1].data(), some.n, s + begins[i]);
        }, begins.back() >= SLICE);
        if (ended_) {
            closed_ += batch_.sides.size();
            end();
        }
        return begins.back();
    }

    // Find the partners of the next arrivals, as many as make a part.
    void next_arrivals() {
        partners_.clear();
        from_ = to_;
        size_t first[2] = {place_[0], place_[1]};
        to_ = chained_->run(batch_, from_, place_, partners_, PULL);
        group_.r.clear();
        group_.s.clear();
        group_.at.clear();
        ends_.assign(to_ - from_, 0);
        size_t n = partners_.size();
        group_.r.resize(n);
        group_.s.resize(n);
        group_.at.resize(n);
        Program& test = chained_->path.residual;
        size_t kept = 0, begin = 0;
        u64 at[2][Program::CHUNK];
        u8 keep[Program::CHUNK];
        // Arrivals in order; of each, the partners were found from new to old.
        for (size_t i = from_; i < to_; i++) {
            int side = batch_.sides[i];
            u64 mine = batch_.first[side] + first[side]++;
            size_t end = begin;
            while (end < n && partners_[end].first == i) end++;
            u32 id = begin < end ? columns_[side].id(mine) : 0;
            for (size_t some = begin; some < end; some += Program::CHUNK) {
                size_t count = std::min(end - some, Program::CHUNK);
                if (!test.empty()) {
                    for (size_t k = 0; k < count; k++) {
                        at[side][k] = mine;
                        at[1 - side][k] = partners_[end - 1 - (some - begin) - k].second;
                    }
                    test.run(columns_[0], columns_[1], at[0], at[1], count, keep);
                }
                for (size_t k = 0; k < count; k++) {
                    u64 partner = partners_[end - 1 - (some - begin) - k].second;
                    if (!test.empty() && !keep[k]) continue;
                    (side ? group_.s : group_.r)[kept] = id;
                    (side ? group_.r : group_.s)[kept] = columns_[1 - side].id(partner);
                    group_.at[kept] = partner;
                    kept++;
                }
            }
            begin = end;
            ends_[i - from_] = kept;
        }
        group_.r.resize(kept);
        group_.s.resize(kept);
        group_.at.resize(kept);
    }

    // Test up to a chunk of candidates and pass on those that are pairs, with the place of the
    // later tuple in the batch and the sequence number of the earlier one.
    template <class Sink> struct Tester {
        const Join& join;
        Program program;
        const Candidates& some;
        Sink& sink;
        u64 at[2][Program::CHUNK];
        u32 arrival[Program::CHUNK];
        u8 side[Program::CHUNK], keep[Program::CHUNK];
        size_t n = 0;

        Tester(const Join& j, const Candidates& c, Sink& out)
            : join(j), program(c.lookup->path.residual), some(c), sink(out) {}

        void add(u64 r, u64 s, u32 when, u8 later) {
            if (program.empty()) return sink(r, s, when, later);
            at[0][n] = r;
            at[1][n] = s;
            arrival[n] = when;
            side[n] = later;
            if (++n == Program::CHUNK) flush();
        }
        void flush() {
            if (!n) return;
            program.run(join.columns_[0], join.columns_[1], at[0], at[1], n, keep);
            for (size_t i = 0; i < n; i++)
                if (keep[i]) sink(at[0][i], at[1][i], arrival[i], side[i]);
            n = 0;
        }
        // Candidates of one record, from `begin` to `end`.
        void record(u32 probe, u32 begin, u32 end) {
            const Batch& batch = join.batch_;
            int me = some.side;
            u64 mine = batch.first[me] + probe, start = batch.start[me][probe];
            u32 when = batch.arrival[me][probe];
            for (u32 i = begin; i < end; i++) {
                u32 ref = some.refs[i];
                if (batch.reach.on) {
                    u64 theirs = some.within ? batch.first[1 - me] + ref : some.base + u32(ref - u32(some.base));
                    u64 r = me ? theirs : mine, s = me ? mine : theirs;
                    if (some.aged && (theirs < start || !join.near(r, s))) continue;
                    add(r, s, when, u8(me));
                    continue;
                }
                if (some.within) {  // only ever looked up by R
                    u64 theirs = batch.first[1] + ref;
                    u32 then = batch.arrival[1][ref];
                    if (then < when) { if (theirs >= start) add(mine, theirs, when, 0); }
                    else if (mine >= batch.start[1][ref]) add(mine, theirs, then, 1);
                    continue;
                }
                u64 theirs = some.base + u32(ref - u32(some.base));
                if (some.old && theirs < start) continue;
                if (me == 0) add(mine, theirs, when, 0);
                else add(theirs, mine, when, 1);
            }
        }
    };

    u64 expand(u32* r, u32* s, u64 most) {
        u64 n = 0;
        const Columns &cr = columns_[0], &cs = columns_[1];
        auto sink = [&](u64 at_r, u64 at_s, u32, u8) {
            r[n] = cr.id(at_r);
            s[n++] = cs.id(at_s);
        };
        u64 left = most;
        while (source_ < candidates_.size() && left) {
            const Candidates& some = candidates_[source_];
            if (!some.within && !some.aged && some.lookup->path.residual.empty()) {
                left -= copy_out(some, r, s, n, left);
            } else {
                Tester<decltype(sink)> test(*this, some, sink);
                for (; record_ < some.records.size() && left; record_++) {
                    const Record& one = some.records[record_];
                    if (record_ + 8 < some.records.size())
                        __builtin_prefetch(some.refs + some.records[record_ + 8].begin);
                    u32 begin = one.begin + offset_;
                    u32 end = u32(std::min<u64>(one.end, begin + left));
                    test.record(one.probe, begin, end);
                    left -= end - begin;
                    offset_ = end == one.end ? 0 : end - one.begin;
                    if (offset_) break;
                }
                test.flush();
            }
            if (record_ == some.records.size()) { source_++; record_ = 0; }
        }
        return n;
    }

    // Candidates that need no test but for their age: write their ids, and step on if they are young.
    // Returns how many candidates were taken.
    u64 copy_out(const Candidates& some, u32* r, u32* s, u64& n, u64 left) {
        int me = some.side, other = 1 - me;
        const Columns &own = columns_[me], &others = columns_[other];
        u64 first = batch_.first[me], taken = 0;
        const u32* ids = others.consecutive ? nullptr : others.ids.data();
        u32 plus = ids ? u32(-i64(others.base)) : others.id(0), base = u32(some.base);
        for (; record_ < some.records.size() && left; record_++) {
            const Record& one = some.records[record_];
            if (record_ + 8 < some.records.size())
                __builtin_prefetch(some.refs + some.records[record_ + 8].begin);
            u32 begin = one.begin + offset_;
            u32 count = u32(std::min<u64>(one.end - begin, left));
            u32 id = own.id(first + one.probe);
            u32 *a = (me ? s : r) + n, *b = (me ? r : s) + n;
            const u32* refs = some.refs + begin;
            if (!some.old) {
                if (ids) for (u32 i = 0; i < count; i++) { a[i] = id; b[i] = ids[u32(refs[i] + plus)]; }
                else for (u32 i = 0; i < count; i++) { a[i] = id; b[i] = refs[i] + plus; }
                n += count;
            } else {
                u64 start = batch_.start[me][one.probe];
                u32 young = start > some.base ? u32(start - some.base) : 0, kept = 0;
                u32 i = 0;
                // Eight at a time, where there is room for as many.
                for (; !ids && i + LANES <= count && kept + LANES <= left; i += LANES) {
                    u32 some[LANES], hits = from8(refs + i, base + young);
                    for (size_t k = 0; k < LANES; k++) {
                        a[kept + k] = id;
                        some[k] = refs[i + k] + plus;
                    }
                    compress8(b + kept, some, hits);
                    kept += __builtin_popcount(hits);
                }
                for (; i < count; i++) {
                    bool keep = refs[i] - base >= young;
                    a[kept] = id;
                    b[kept] = ids && keep ? ids[u32(refs[i] + plus)] : refs[i] + plus;
                    kept += keep;
                }
                n += kept;
            }
            taken += count;
            left -= count;
            offset_ = begin + count == one.end ? 0 : begin + count - one.begin;
            if (offset_) break;
        }
        return taken;
    }

    // Put the pairs of the next arrivals in order.
    void next_group() {
        u64 sum = 0;
        to_ = from_;
        size_t n = batch_.sides.size();
        while (to_ < n && (to_ == from_ || sum + load_[to_] <= GROUP)) sum += load_[to_++];
        struct Pair { u64 earlier; u32 arrival, later; u8 side; };
        std::vector<Pair> found;
        const Columns &cr = columns_[0], &cs = columns_[1];
        auto sink = [&](u64 at_r, u64 at_s, u32 when, u8 side) {
            if (when >= from_ && when < to_)
                found.push_back({side ? at_r : at_s, when, side ? cs.id(at_s) : cr.id(at_r), side});
        };
        bool all = from_ == 0 && to_ == n;
        for (const auto& some : candidates_) {
            Tester<decltype(sink)> test(*this, some, sink);
            for (const Record& one : some.records) {
                u32 when = batch_.arrival[some.side][one.probe];
                if (all || some.within || (when >= from_ && when < to_))
                    test.record(one.probe, one.begin, one.end);
            }
            test.flush();
        }
        ends_.assign(to_ - from_ + 1, 0);
        for (const Pair& pair : found) ends_[pair.arrival - from_ + 1]++;
        std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
        std::vector<u64> places(ends_.begin(), ends_.end() - 1);
        std::vector<u32> order(found.size());
        for (u32 i = 0; i < found.size(); i++) order[places[found[i].arrival - from_]++] = i;
        for (size_t i = 0; i + 1 < ends_.size(); i++)
            if (ends_[i + 1] - ends_[i] > 1)
                std::sort(order.begin() + ends_[i], order.begin() + ends_[i + 1],
                          [&](u32 x, u32 y) { return found[x].earlier < found[y].earlier; });
        group_.r.resize(found.size());
        group_.s.resize(found.size());
        group_.at.resize(found.size());
        for (size_t i = 0; i < order.size(); i++) {
            const Pair& pair = found[order[i]];
            u32 earlier = pair.side ? cr.id(pair.earlier) : cs.id(pair.earlier);
            group_.r[i] = pair.side ? earlier : pair.later;
            group_.s[i] = pair.side ? pair.later : earlier;
            group_.at[i] = pair.earlier;
        }
        ends_.erase(ends_.begin());
    }
};

template <class Work> int guarded(char* error, size_t size, Work work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return -2;
    } catch (const std::exception& problem) {
        std::strncpy(error, problem.what(), size - 1);
        return -1;
    }
}

}  // namespace

EXPORT Join* eddyline_join_open(const i64* spec, u64 n, u64 threads, char* error, u64 size) {
    Join* join = nullptr;
    guarded(error, size, [&] { join = new Join(spec, n, threads); return 0; });
    return join;
}
EXPORT void eddyline_join_close(Join* join) { delete join; }
// Without `stores_r` and `stores_s`, every tuple is stored.
EXPORT int eddyline_join_push(Join* join, const u8* sides, u64 n, const u8* r, const u8* s, const u8* stores_r,
                              const u8* stores_s, const u8* written, char* error, u64 size) {
    const u8* stores[2] = {stores_r, stores_s};
    return guarded(error, size, [&] { join->push(sides, n, r, s, stores, written); return 0; });
}
EXPORT int eddyline_join_keys(Join* join, const u8* r, u64 r_count, const u8* s, u64 s_count, const u8** to,
                              u64* bytes, char* error, u64 size) {
    return guarded(error, size, [&] {
        const Array<u8>& written = join->keys(r, r_count, s, s_count);
        *to = written.data();
        *bytes = written.size();
        return 0;
    });
}
EXPORT int eddyline_join_load(Join* join, const u8* sides, u64 n, const u8* r, const u8* s, const u8* stores_r,
                              const u8* stores_s, char* error, u64 size) {
    const u8* stores[2] = {stores_r, stores_s};
    return guarded(error, size, [&] { join->load(sides, n, r, s, stores); return 0; });
}
EXPORT int eddyline_join_pass(Join* join, u64 r, u64 s, char* error, u64 size) {
    return guarded(error, size, [&] { join->pass(r, s); return 0; });
}
EXPORT int eddyline_join_accept_late(Join* join) { return join->accept_late(); }
EXPORT void eddyline_join_watermark(Join* join, i64 r, i64 s) { join->watermark(r, s); }
EXPORT void eddyline_join_expire(Join* join, u64 r, u64 s) { join->expire(r, s); }
EXPORT void eddyline_join_held(const Join* join, u64* to) { join->held(to); }
EXPORT int eddyline_join_next(Join* join, u64* most, u64* arrivals, char* error, u64 size) {
    return guarded(error, size, [&] { return int(join->next(most, arrivals)); });
}
EXPORT int eddyline_join_take(Join* join, u32* r, u32* s, u64* at, u64* ends, u64* starts, u64* stops,
                              u64 most, u64* pairs, char* error, u64 size) {
    return guarded(error, size, [&] {
        *pairs = join->take(r, s, at, ends, starts, stops, most);
        return int(join->between());
    });
}
EXPORT int eddyline_join_ranges(Join* join, u64* pairs, u64* records, char* error, u64 size) {
    return guarded(error, size, [&] { join->ranges(pairs, records); return 0; });
}
EXPORT int eddyline_join_gave_way(const Join* join) { return join->gave_way(); }
EXPORT u64 eddyline_join_closed(const Join* join) { return join->closed(); }
EXPORT void eddyline_join_flush(Join* join) { join->flush(); }
EXPORT void eddyline_join_report(const Join* join, u64* to) { join->report(to); }
EXPORT void eddyline_join_kind(Join* join, u64 path, int kind) { join->set_kind(path, kind); }
EXPORT void eddyline_join_subwindows(Join* join, u64 count) { join->set_subwindows(count); }
