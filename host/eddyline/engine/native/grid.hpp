// Bands without order: cells of a few tuples each, which are compared all at once. A tuple is stored
// once, in the cell of its lower bounds. What does not overlap is left out by its bounds, and what is
// too old by its age, so nothing is ever deleted: a full block lets go of what is old, and else passes
// its tuples on to another block, which follows it.
#pragma once
#include "arrival.hpp"
#include "vector.hpp"

namespace eddyline {

// A rising map from keys to numbers that spreads what was seen evenly over 2^BITS of them: the share
// of a sample that lies below, straight in between and beyond. Floats and skewed keys need this;
// cells of equal width would hold everything, or nothing. Keys are cut into pieces of equal width,
// and a piece with much of the sample again.
class Ranks {
    static constexpr size_t PIECES = 256, SHARE = 64, ENOUGH = 128;  // of the sample for a piece
    struct Node { u64 base; int shift; u32 first; };          // keys from `base` on, pieces from `first` on
    struct Piece { u64 base; double rank, slope; u32 node; };  // another node, or none
    std::vector<Node> nodes_;
    std::vector<Piece> pieces_;
    u64 least_ = 0, most_ = 0;
    double beyond_ = 0;  // ranks of a key outside of what was seen

public:
    static constexpr int BITS = 24;
    static constexpr double ALL = 1 << BITS, FAR = 1 << 30;

    void learn(std::vector<u64>& sample) {
        nodes_.clear();
        pieces_.clear();
        std::sort(sample.begin(), sample.end());
        if (sample.empty() || sample[0] == sample.back()) return;
        least_ = sample[0];
        most_ = sample.back();
        beyond_ = ALL / double(most_ - least_);
        divide(sample, 0, sample.size(), least_, most_);
    }

    int32_t of(u64 key) const {
        if (nodes_.empty()) return 0;
        if (key < least_) return -int32_t(std::min(double(least_ - key) * beyond_, FAR));
        if (key > most_) return int32_t(ALL + std::min(double(key - most_) * beyond_, FAR));
        const Node* node = &nodes_[0];
        for (;;) {
            const Piece& piece = pieces_[node->first + ((key - node->base) >> node->shift)];
            if (!piece.node) return int32_t(piece.rank + double(i64(key - piece.base)) * piece.slope);
            node = &nodes_[piece.node];
        }
    }

private:
    // Map the keys from `low` to `high`, which are sample[from:to].
    void divide(const std::vector<u64>& sample, size_t from, size_t to, u64 low, u64 high) {
        int shift = 0;
        while ((high - low) >> shift >= std::clamp<size_t>((to - from) / ENOUGH, 1, PIECES)) shift++;
        size_t first = pieces_.size(), count = ((high - low) >> shift) + 1, n = sample.size();
        nodes_.push_back({low, shift, u32(first)});
        pieces_.resize(first + count);
        for (size_t i = 0, at = from; i < count; i++) {
            u64 base = low + (u64(i) << shift), last = i + 1 < count ? base + ((u64(1) << shift) - 1) : high;
            size_t end = std::upper_bound(sample.begin() + at, sample.begin() + to, last) - sample.begin();
            double share = double(end - at) / n * ALL;
            // A double may round up: leave room, so that ranks rise.
            Piece piece{base, at * (ALL / n), share / (double(last - base) + 1) * (1 - 1e-9), 0};
            if (shift && end - at > std::max(n / SHARE, 4 * ENOUGH)) {
                piece.node = nodes_.size();
                divide(sample, at, end, base, last);
            }
            pieces_[first + i] = piece;
            at = end;
        }
    }
};

template <class K, int D> struct Bounds {
    K low[D], high[D];
    bool overlap(const Bounds& other) const {
        bool all = true;
        for (int d = 0; d < D; d++) all &= (low[d] <= other.high[d]) & (other.low[d] <= high[d]);
        return all;
    }
};

// The tuples of one side, in blocks of two cache lines (of four, if keys have 64 bits).
template <class K, int D> class Blocks {
    static constexpr u32 MORE = 128;  // beside the number of tuples: another block follows
    static constexpr size_t BYTES = 32 * sizeof(K);
    // Then come the refs, and then each bound of all of them; a value has one.
    struct Head { u32 next, fill; };
    struct alignas(BYTES) Block { u8 bytes[BYTES]; };

    Array<Block> blocks_;
    int rows_ = 0, low_[D], high_[D];
    size_t offset_[2 * D], shift_[2 * D];  // where to read sixteen of a bound, and how many too early
    size_t lanes_;      // tuples of a block
    size_t cells_ = 0;  // blocks that cells have; behind them are those that follow, as a ring
    std::vector<u64> newest_;  // behind the newest tuple of those
    u64 begin_ = 0, end_ = 0;

public:
    using Box = Bounds<K, D>;
    struct Tuple { Box bounds; u32 ref; };
    std::vector<Tuple> wide;  // tuples that cover too many cells: everyone looks at them

    explicit Blocks(const bool* values) {
        for (int d = 0; d < D; d++) {
            low_[d] = rows_++;
            high_[d] = values[d] ? low_[d] : rows_++;
        }
        lanes_ = std::min(PARTITION, (BYTES - sizeof(Head)) / (4 + rows_ * sizeof(K)));
        if (sizeof(K) == 8) lanes_ &= ~size_t(1);
        for (int row = 0; row < rows_; row++) {
            size_t at = sizeof(Head) + lanes_ * (4 + row * sizeof(K));
            offset_[row] = std::min(at, BYTES - PARTITION * sizeof(K));  // not beyond the end
            shift_[row] = (at - offset_[row]) / sizeof(K);
        }
        reset(1);
    }

    size_t cells() const { return cells_; }
    // The block of a cell; cells that are some way apart share one.
    size_t home(u64 cell) const { return cell < cells_ ? cell : (cell + (u64(cells_) << 32)) % cells_; }
    size_t bytes() const { return sizeof(Block) * blocks_.capacity() + 8 * newest_.capacity(); }

    void reset(size_t tuples) {
        // The smaller a block, the more room it needs so that another one seldom has to follow.
        cells_ = std::max<size_t>(16, tuples * (lanes_ + 10) / (lanes_ * lanes_));
        newest_.clear();
        wide.clear();
        begin_ = end_ = 0;
        resize(16);
        for (size_t cell = 0; cell < cells_; cell++) head(cell).fill = 0;
    }

    // Fetch what is soon read or written.
    template <int WRITE> void prefetch(size_t block) const {
        for (size_t line = 0; line < BYTES; line += 64) __builtin_prefetch(&blocks_[block].bytes[line], WRITE);
    }

    // Where `sequence` is that of the tuple, and what is below `oldest` is not asked for any more.
    void insert(size_t cell, const Box& bounds, u64 sequence, u64 oldest) {
        size_t n = head(cell).fill & ~MORE;
        if (n == lanes_ && (n = evict(cell, u32(oldest))) == lanes_) {
            pass_on(cell, sequence);
            n = 0;
        }
        for (int d = 0; d < D; d++) {
            keys(cell, low_[d])[n] = bounds.low[d];
            if (high_[d] != low_[d]) keys(cell, high_[d])[n] = bounds.high[d];
        }
        refs(cell)[n] = u32(sequence);
        head(cell).fill++;
    }

    // Write down what overlaps in the blocks of a cell, of `size` tuples from `start` on. Returns how
    // many were looked at.
    size_t find(size_t cell, const Box& bounds, u32 start, u32 size, u32 place, Steps& out) const {
        u32 fill = head(cell).fill;
        size_t looked = fill & ~MORE;
        scan(cell, looked, bounds, start, size, place, out);
        for (size_t block = cell; fill & MORE && alive(head(block).next);) {
            block = follower(head(block).next);
            fill = head(block).fill;
            scan(block, fill & ~MORE, bounds, start, size, place, out);
            looked += fill & ~MORE;
        }
        return looked;
    }

    // Blocks whose tuples are all below `oldest` are given to others.
    void expire(u64 oldest) {
        while (begin_ < end_ && newest_[begin_ & (newest_.size() - 1)] <= oldest) begin_++;
        std::erase_if(wide, [&](const Tuple& one) { return int32_t(one.ref - u32(oldest)) < 0; });
    }
    // Ages are compared modulo 2^32: what is old must not come round.
    void sweep(u64 oldest) {
        for (size_t cell = 0; cell < cells_; cell++) {
            evict(cell, u32(oldest));
            if (!alive(head(cell).next)) head(cell).fill &= ~MORE;
        }
    }

    // All tuples from `oldest` on, by age.
    std::vector<Tuple> all(u64 oldest) const {
        std::vector<Tuple> some(wide), sorted;
        auto add = [&](size_t block) {
            for (u32 i = 0; i < (head(block).fill & ~MORE); i++) {
                Tuple one;
                one.ref = refs(block)[i];
                if (int32_t(one.ref - u32(oldest)) < 0) continue;
                for (int d = 0; d < D; d++) {
                    one.bounds.low[d] = keys(block, low_[d])[i];
                    one.bounds.high[d] = keys(block, high_[d])[i];
                }
                some.push_back(one);
            }
        };
        for (size_t cell = 0; cell < cells_; cell++) add(cell);
        for (u64 number = begin_; number < end_; number++) add(follower(u32(number)));
        Items<u32> ages;
        for (u32 i = 0; i < some.size(); i++) ages.push(some[i].ref - u32(oldest), 0, i);
        Sorter<u32>().sort(ages);
        for (u32 i : ages.ref) sorted.push_back(some[i]);
        return sorted;
    }

private:
    template <class T> T* at(size_t block, size_t byte) const {
        return reinterpret_cast<T*>(const_cast<u8*>(blocks_[block].bytes) + byte);
    }
    Head& head(size_t block) const { return *at<Head>(block, 0); }
    u32* refs(size_t block) const { return at<u32>(block, sizeof(Head)); }
    const K* sixteen(size_t block, int row) const { return at<K>(block, offset_[row]); }
    K* keys(size_t block, int row) const { return at<K>(block, offset_[row]) + shift_[row]; }

    bool alive(u32 number) const { return u32(u32(end_) - 1 - number) < end_ - begin_; }
    size_t follower(u32 number) const { return cells_ + (number & (newest_.size() - 1)); }

    void resize(size_t followers) {
        newest_.resize(followers);
        blocks_.resize(cells_ + followers);
    }

    void scan(size_t block, u32 n, const Box& bounds, u32 start, u32 size, u32 place, Steps& out) const {
        out.room(PARTITION);
        u32 hits = ((u32(1) << n) - 1) & within16(refs(block), start, size);
        for (int d = 0; d < D; d++) {
            hits &= at_most16(sixteen(block, low_[d]), bounds.high[d]) >> shift_[low_[d]];
            hits &= at_least16(sixteen(block, high_[d]), bounds.low[d]) >> shift_[high_[d]];
        }
        out.add16(place, refs(block), hits);
    }

    // Keep the tuples of a block that are not below `oldest`, and return how many.
    u32 evict(size_t block, u32 oldest) {
        u32 n = head(block).fill & ~MORE, kept = 0;
        u32 young = within16(refs(block), oldest, u32(1) << 31) & ((u32(1) << n) - 1);
        if (young + 1 == u32(1) << n) return n;
        for (; young; young &= young - 1, kept++) {
            u32 from = __builtin_ctz(young);
            for (int row = 0; row < rows_; row++) keys(block, row)[kept] = keys(block, row)[from];
            refs(block)[kept] = refs(block)[from];
        }
        head(block).fill = (head(block).fill & MORE) | kept;
        return kept;
    }

    // Move the tuples of a full block to another one behind it.
    void pass_on(size_t cell, u64 sequence) {
        if (end_ - begin_ == newest_.size()) grow();
        u32 number = u32(end_++);
        size_t block = follower(number);
        newest_[block - cells_] = sequence;
        blocks_[block] = blocks_[cell];
        head(cell) = {number, MORE};
    }

    void grow() {
        size_t before = newest_.size();
        resize(2 * before);
        for (u64 number = begin_; number < end_; number++) {  // some have another place now
            size_t from = number & (before - 1), to = number & (2 * before - 1);
            newest_[to] = newest_[from];
            blocks_[cells_ + to] = blocks_[cells_ + from];
        }
    }
};

template <class K, int D> class GridOf final : public ByArrival {
    using Box = Bounds<K, D>;
    struct Spot { int32_t low[D], high[D]; };  // ranks of bounds
    static constexpr size_t FIRST = 256, SAMPLE = 1 << 16, CHUNK = 64, AHEAD = 16;
    static constexpr int SEGMENT_BITS = 6, SEGMENTS = 1 << SEGMENT_BITS;
    static constexpr u32 CELLS = D == 2 ? 1 << 15 : 1 << 24;  // per dimension, at the most

    Ranks ranks_[D];
    u32 limit_[D];  // ranks that a tuple may cover
    struct Side {
        Blocks<K, D> blocks;
        u32 count[D];       // cells in each dimension of the ranks that were seen
        u64 stride;         // from a cell to its neighbour in the first of two dimensions
        std::vector<u32> reach[D];  // how many ranks the tuples cover that are stored around a rank
        std::vector<Box> boxes;     // of the batch
        std::vector<Spot> spots;
        std::vector<u8> usable;
        u64 swept = 0, oldest = 0;
    };
    Side sides_[2];
    std::vector<size_t> next_, last_;  // of each task: places that are still to be looked up
    u64 learned_ = 0, excess_ = 0;

public:
    explicit GridOf(Path&& p) : ByArrival(std::move(p)), sides_{side(0), side(1)} { forget(); }

    void prepare(const Batch& batch, Columns* columns, Pool& pool) override {
        u64 live[2];
        for (int s : {0, 1}) {
            sides_[s].oldest = columns[s].oldest();
            live[s] = columns[s].count - sides_[s].oldest;
        }
        pool.run(2, [&](size_t s) { read(s, batch.records[s].data(), batch.size(s), columns[s].layout); });
        u64 more = std::max(live[0], live[1]);
        if ((more >= FIRST && more > learned_) || excess_ > 256 * (live[0] + live[1]) + 1000 * FIRST)
            learn(columns, live);
    }

    void begin(const Batch& batch, Pool& pool) override {
        pool.run(2, [&](size_t s) { enter(s, batch.first[s]); });
        share_out(batch, pool.size());
        next_.clear();
        last_.clear();
        for (const Task& task : tasks_) {
            next_.push_back(task.from);
            last_.push_back(task.to);
        }
    }

    bool walk(const Batch& batch, size_t enough, Pool& pool) override {
        std::vector<u64> looked(tasks_.size());
        pool.run(tasks_.size(), [&](size_t t) {
            int side = tasks_[t].side;
            size_t from = next_[t], to = from, seen = 0;
            found[t].clear(side);
            // What is looked at is written down some tuples ahead, so that it can be fetched.
            Looks now, soon;
            for (;;) {
                size_t ahead = found[t].n < enough ? std::min(to + CHUNK, last_[t]) : to;
                aim(side, to, ahead, soon);
                seen += look(batch, side, from, to, now, soon, found[t]);
                std::swap(now, soon);
                from = to;
                to = ahead;
                if (from == to) break;
            }
            next_[t] = from;
            looked[t] = seen;
        });
        u64 sum = 0, pairs = 0;
        for (u64 one : looked) sum += one;
        for (const Steps& some : found) pairs += some.n;
        examined += sum;
        // What is looked at for nothing; a tuple that is stored well costs a few.
        excess_ += sum > 8 * pairs ? sum - 8 * pairs : 0;
        for (size_t t = 0; t < tasks_.size(); t++)
            if (next_[t] < last_[t]) return false;
        u64 fair = 64 * batch.sides.size();
        excess_ -= std::min(excess_, fair);
        return true;
    }

    size_t run(const std::vector<u8>&, size_t from, size_t*, const std::vector<u64>*,
               std::vector<std::pair<u32, u64>>&, size_t) override { return from; }
    std::unique_ptr<Lookup> sorted(const Columns* columns) const override {
        if (D > 1) return nullptr;
        Path same = path;
        same.kind = Kind::bisort;
        auto lookup = std::make_unique<LookupOf<K>>(std::move(same));
        for (int s : {0, 1}) {
            Items<K> items;
            u64 oldest = columns[s].oldest(), count = columns[s].count;
            for (const auto& one : sides_[s].blocks.all(oldest)) items.push(one.bounds.low[0], one.bounds.high[0], one.ref);
            lookup->set_target(s, count - oldest);
            lookup->restore(s, items, oldest, count, columns[s]);
        }
        return lookup;
    }
    void clear() override {
        for (Side& one : sides_) { one.blocks.reset(1); one.swept = 0; }
        forget();
    }
    size_t bytes() const override { return sides_[0].blocks.bytes() + sides_[1].blocks.bytes(); }

private:
    Side side(int s) const {
        bool values[D];
        for (int d = 0; d < D; d++) values[d] = path.dimensions[d].low[s] == path.dimensions[d].high[s];
        return {Blocks<K, D>(values), {}, 1, {}, {}, {}, {}, 0, 0};
    }

    void forget() {
        learned_ = excess_ = 0;
        for (int d = 0; d < D; d++) {
            ranks_[d] = {};
            limit_[d] = ~u32(0);
            for (Side& one : sides_) {
                one.count[d] = 1;
                one.reach[d].assign(SEGMENTS, 0);
            }
        }
    }

    // Bounds of the batch's tuples.
    void read(int s, const u8* records, size_t n, const Layout& layout) {
        Side& mine = sides_[s];
        mine.boxes.resize(n);
        mine.spots.resize(n);
        mine.usable.resize(n);
        for (size_t i = 0; i < n; i++, records += layout.stride) {
            Box& box = mine.boxes[i];
            bool usable = (Layout::valid(records) & path.needed[s]) == path.needed[s];
            for (int d = 0; d < D; d++) {
                auto [low, high] = path.bounds(layout, records, s, d);
                box.low[d] = K(low);
                box.high[d] = K(std::min<u64>(high, std::numeric_limits<K>::max()));
                usable &= box.low[d] <= box.high[d];
            }
            mine.usable[i] = usable;
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
    static i64 cell(const Side& side, int d, i64 rank) { return (rank * side.count[d]) >> Ranks::BITS; }
    static size_t home(const Side& side, const Spot& spot) {
        u64 at = u64(cell(side, D - 1, spot.low[D - 1]));
        return side.blocks.home(D == 2 ? at + u64(cell(side, 0, spot.low[0])) * side.stride : at);
    }
    static size_t segment(int32_t rank) {
        int32_t at = rank >> (Ranks::BITS - SEGMENT_BITS);
        at = at < 0 ? 0 : at;
        return at < SEGMENTS ? at : SEGMENTS - 1;
    }
    bool wide(const Spot& spot) const {
        bool any = false;
        for (int d = 0; d < D; d++) any |= u32(spot.high[d] - spot.low[d]) > limit_[d];
        return any;
    }

    void store(Side& mine, const Box& box, const Spot& spot, u64 sequence) {
        if (wide(spot)) {
            mine.blocks.wide.push_back({box, u32(sequence)});
            return;
        }
        for (int d = 0; d < D; d++) {
            u32 covers = spot.high[d] - spot.low[d], *reach = mine.reach[d].data();
            for (size_t at = segment(spot.low[d]), end = segment(spot.high[d]); at <= end; at++)
                if (reach[at] < covers) reach[at] = covers;
        }
        mine.blocks.insert(home(mine, spot), box, sequence, mine.oldest);
    }

    // Store tuples, and fetch their blocks some tuples ahead: `spot` gives the place of one, `keep` stores it.
    template <class Spotted, class Keep> static void store_all(const Side& mine, size_t n, Spotted spot, Keep keep) {
        for (size_t i = 0; i < n + AHEAD; i++) {
            if (i < n) mine.blocks.template prefetch<1>(home(mine, spot(i)));
            if (i >= AHEAD) keep(i - AHEAD);
        }
    }

    // Store the batch's tuples.
    void enter(int s, u64 first) {
        Side& mine = sides_[s];
        mine.blocks.expire(mine.oldest);
        size_t n = mine.boxes.size();
        if (first + n - mine.swept > u64(1) << 30) {
            mine.blocks.sweep(mine.oldest);
            mine.swept = first + n;
        }
        store_all(mine, n, [&](size_t i) { return mine.spots[i] = spot_of(mine.boxes[i]); }, [&](size_t i) {
            if (mine.usable[i]) store(mine, mine.boxes[i], mine.spots[i], first + i);
        });
    }

    // Blocks at which some of the batch look, and who.
    struct Look { u32 block, place; };
    struct Looks { std::vector<Look> all; size_t n = 0; };

    // Write down where to look.
    void aim(int s, size_t from, size_t to, Looks& looks) const {
        const Side &mine = sides_[s], &other = sides_[1 - s];
        u64 blocks = other.blocks.cells(), stride = other.stride;
        looks.n = 0;
        for (size_t i = from; i < to; i++) {
            if (!mine.usable[i]) continue;
            const Spot& spot = mine.spots[i];
            i64 first[D], last[D];
            for (int d = 0; d < D; d++) {
                first[d] = cell(other, d, i64(spot.low[d]) - other.reach[d][segment(spot.low[d])]);
                last[d] = cell(other, d, spot.high[d]);
            }
            u64 at = u64(first[D - 1]), along = last[D - 1] - first[D - 1], across = 0;
            if (D == 2) {
                across = last[0] - first[0];
                at += u64(first[0]) * stride;
            }
            // No block twice.
            if (along + across * stride >= blocks || (across && along >= stride)) {
                at = across = 0;
                along = blocks - 1;
            }
            size_t most = looks.n + (along + 1) * (across + 1) + 4;
            if (looks.all.size() < most) looks.all.resize(2 * most);
            Look* to_look = looks.all.data() + looks.n;
            auto add = [&](u64 cell, bool counts) {
                *to_look = {u32(other.blocks.home(cell)), u32(i)};
                to_look += counts;
            };
            if ((along | across) <= 1) {  // mostly, and without guessing how many they are
                add(at, true);
                add(at + along, along);
                if (D == 2) {
                    add(at + across * stride, across);
                    add(at + across * stride + along, across & along);
                }
            } else {
                for (u64 row = 0; row <= across; row++, at += stride)
                    for (u64 step = 0; step <= along; step++) add(at + step, true);
            }
            looks.n = to_look - looks.all.data();
        }
    }

    // Look there, and fetch what is looked at next. Returns how many tuples were looked at.
    size_t look(const Batch& batch, int s, size_t from, size_t to, const Looks& looks, const Looks& soon,
                Steps& out) const {
        const Side& mine = sides_[s];
        const auto& blocks = sides_[1 - s].blocks;
        const u64 *starts = batch.start[s].data(), *stops = batch.stop[s].data();
        size_t looked = 0;
        for (size_t k = 0; k < looks.n; k++) {
            size_t ahead = k + AHEAD;
            if (ahead < looks.n) blocks.template prefetch<0>(looks.all[ahead].block);
            else if (ahead - looks.n < soon.n) blocks.template prefetch<0>(soon.all[ahead - looks.n].block);
            auto [block, i] = looks.all[k];
            u64 start = starts[i];
            looked += blocks.find(block, mine.boxes[i], u32(start), u32(stops[i] - start), i, out);
        }
        for (size_t i = from; i < to && blocks.wide.size(); i++) {
            if (!mine.usable[i]) continue;
            u64 start = starts[i], size = stops[i] - start;
            for (const auto& one : blocks.wide)
                if (u32(one.ref - u32(start)) < size && one.bounds.overlap(mine.boxes[i])) out.add(u32(i), one.ref);
            looked += blocks.wide.size();
        }
        return looked;
    }

    // Spread cells over what is there now.
    void learn(Columns* columns, const u64* live) {
        std::vector<typename Blocks<K, D>::Tuple> all[2];
        std::vector<Box> some;
        u64 expected[2];
        for (int s : {0, 1}) {
            Side& mine = sides_[s];
            all[s] = mine.blocks.all(mine.oldest);
            size_t n = all[s].size(), m = mine.boxes.size(), step = std::max<size_t>(1, (n + m) / SAMPLE);
            for (size_t i = 0; i < n; i += step) some.push_back(all[s][i].bounds);
            for (size_t i = 0; i < m; i += step)
                if (mine.usable[i]) some.push_back(mine.boxes[i]);
            expected[s] = 64 * live[s];
            if (columns[s].window.kind == 0) expected[s] = std::min<u64>(expected[s], columns[s].window.size);
            expected[s] = std::max(expected[s], live[s]);
        }
        learned_ = std::max(expected[0], expected[1]) + std::max(sides_[0].boxes.size(), sides_[1].boxes.size());
        double share[D];  // of the ranks, what a band covers
        for (int d = 0; d < D; d++) {
            std::vector<u64> values;
            for (const Box& box : some) values.push_back(box.low[d]);
            ranks_[d].learn(values);
            std::vector<u32> widths;
            for (const Box& box : some)
                if (box.low[d] != box.high[d]) widths.push_back(ranks_[d].of(box.high[d]) - ranks_[d].of(box.low[d]));
            std::sort(widths.begin(), widths.end());
            u32 usual = widths.empty() ? 0 : widths[widths.size() / 2];
            u32 most = widths.empty() ? 0 : widths[widths.size() - 1 - widths.size() / 1000];
            limit_[d] = 4 * most + (u32(1) << (Ranks::BITS - 7));
            share[d] = std::max(1.0, double(usual)) / (u32(1) << Ranks::BITS);
            for (Side& one : sides_) one.reach[d].assign(SEGMENTS, 0);
        }
        for (int s : {0, 1}) {
            sides_[s].blocks.reset(expected[s]);
            divide(sides_[s], some, expected[s], share);
            auto spot = [&](size_t i) { return spot_of(all[s][i].bounds); };
            store_all(sides_[s], all[s].size(), spot, [&](size_t i) {
                u64 sequence = sides_[s].oldest + u32(all[s][i].ref - u32(sides_[s].oldest));
                store(sides_[s], all[s][i].bounds, spot(i), sequence);
            });
        }
        excess_ = 0;
    }

    // So many cells in each dimension that a lookup touches few of them.
    void divide(Side& side, const std::vector<Box>& some, u64 tuples, const double* share) {
        size_t cells = side.blocks.cells();
        u32* count = side.count;
        if constexpr (D == 1) {
            count[0] = std::min<u64>(cells, CELLS);
        } else {
            double first = std::sqrt(cells * share[1] / share[0]);
            count[0] = u32(std::clamp<double>(first, 1, std::min<double>(cells, CELLS)));
            count[1] = u32(std::clamp<double>(double(cells) / count[0], 1, CELLS));
            side.stride = count[1];
            // Where the dimensions go together, most cells are empty and some are full: have more of
            // them, but not many for a lookup.
            while (crowd(side, some) * tuples > 2 * PARTITION) {
                bool finer[2];
                for (int d = 0; d < 2; d++) finer[d] = count[d] * share[d] < 1 && count[d] < CELLS / 2;
                if (!finer[0] && !finer[1]) break;
                for (int d = 0; d < 2; d++) count[d] *= 1 + finer[d];
                side.stride = std::max<u64>(1, std::min<u64>(count[1], cells / 64));
            }
        }
    }

    // The share of tuples that is in the same cell as a tuple.
    double crowd(const Side& side, const std::vector<Box>& some) const {
        std::vector<u64> cells;
        for (const Box& box : some) {
            Spot spot = spot_of(box);
            cells.push_back(u64(cell(side, 0, spot.low[0])) << 32 | u32(cell(side, D - 1, spot.low[D - 1])));
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
