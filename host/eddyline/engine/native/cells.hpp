// Both sides' tuples in cells: a cell has a few cache lines, some for each side, side by side. What
// is too old is written over, so nothing is ever deleted; a line that is full of young tuples passes
// them on to another one, which follows it.
#pragma once
#include "pool.hpp"
#include "vector.hpp"

namespace eddyline {

template <class K, int D> struct Bounds {
    K low[D], high[D];
    bool overlap(const Bounds& other) const {
        bool all = true;
        for (int d = 0; d < D; d++) all &= (low[d] <= other.high[d]) & (other.low[d] <= high[d]);
        return all;
    }
};

// Pairs that were found, as low bits of the sequence numbers of R and of S. Threads that write to
// neighbours must not share a cache line.
struct alignas(128) Steps {
    size_t n = 0;
    Array<u32> at[2];

    void room(size_t more) {
        if (n + more <= at[0].size()) return;
        for (auto& side : at) side.resize(2 * (n + more));
    }
    void add(int side, u32 who, u32 partner) {
        room(1);
        at[side][n] = who;
        at[1 - side][n++] = partner;
    }
};

// Adds to steps, from registers.
class Writer {
    Steps& steps_;
    u32* at_[2];
    size_t room_;

public:
    size_t n;
    explicit Writer(Steps& steps) : steps_(steps), n(steps.n) { look(); }
    ~Writer() { steps_.n = n; }

    // Those of eight partners whose bit is set.
    template <int SIDE> void add8(u32 who, const u32* partners, u32 bits) {
        if (n + LANES > room_) [[unlikely]] grow();
        u32* mine = at_[SIDE] + n;
        for (size_t i = 0; i < LANES; i++) mine[i] = who;
        compress8(at_[1 - SIDE] + n, partners, bits);
        n += __builtin_popcount(bits);
    }

private:
    void look() {
        for (int side : {0, 1}) at_[side] = steps_.at[side].data();
        room_ = steps_.at[0].size();
    }
    [[gnu::noinline]] void grow() {
        steps_.n = n;
        steps_.room(LANES);
        look();
    }
};

template <class K, int D> class Cells {
    static constexpr size_t FEW = 1 << 14;  // tuples for which one thread is enough
    static constexpr size_t BYTES = 16 * D * sizeof(K), LINK = BYTES - 4;
    // Refs, then each bound of all of them, and last a link to the line that follows.
    struct alignas(64) Line { u8 bytes[BYTES]; };
    // Where things are in a line. Of a dimension that is even, lower bounds stand for both, as the
    // upper ones are all above them by the same width.
    struct Shape {
        size_t rows = 0, low[D], high[D];     // of bounds
        size_t lanes;                         // tuples of a line
        u32 all;                              // a bit for each
        size_t offset[2 * D], shift[2 * D];   // where to read eight of a bound, and how many too early

        constexpr explicit Shape(u32 even) : low{}, high{}, offset{}, shift{} {
            for (int d = 0; d < D; d++) {
                low[d] = rows++;
                high[d] = even >> d & 1 ? low[d] : rows++;
            }
            lanes = std::min(LANES, LINK / (4 + rows * sizeof(K)));
            if (sizeof(K) == 8) lanes &= ~size_t(1);
            all = (u32(1) << lanes) - 1;
            for (size_t row = 0; row < rows; row++) {
                size_t at = lanes * (4 + row * sizeof(K));
                offset[row] = std::min(at, BYTES - LANES * sizeof(K));  // not beyond the end
                shift[row] = (at - offset[row]) / sizeof(K);
            }
        }
    };
    struct Side : Shape {
        u32 even;                             // a bit for each dimension
        K width[D];                           // of what is even
        Side() : Shape(0), even(0), width{} {}
        Side(u32 bits) : Shape(bits), even(bits), width{} {}
    };
    // Lines that follow those of cells: a ring.
    struct alignas(128) Followers {
        Array<Line> lines;
        std::vector<u64> newest;              // behind the newest tuple of each
        u64 begin = 1, end = 1;               // their numbers: 0 is none

        bool alive(u32 number) const { return u32(u32(end) - 1 - number) < end - begin; }
        size_t place(u64 number) const { return number & (newest.size() - 1); }
    };
    Side sides_[2];
    Array<Line> lines_;
    std::vector<Followers> followers_;  // of each part and side
    size_t cells_ = 0, parts_;
    u64 scale_ = 0;

public:
    using Box = Bounds<K, D>;
    struct Tuple { Box bounds; u32 ref; };
    // All that is to be known of a tuple that looks at a cell, and is stored there or not.
    struct Visit {
        u32 cell, start, who, flags;
        Box bounds;
        Visit() = default;
        Visit(size_t c, int side, bool stores, u32 from, u32 sequence, const Box& box)
            : cell(u32(c)), start(from), who(sequence), flags(u32(side << 1 | stores)), bounds(box) {}
        int side() const { return flags >> 1; }
        bool stores() const { return flags & 1; }
    };

    // Of each side and dimension, how much the upper bound of all tuples is above the lower one, or
    // UNEVEN: then both are stored.
    static constexpr K UNEVEN = std::numeric_limits<K>::max();
    using Widths = std::array<std::array<K, D>, 2>;

    // Threads may work on different parts of the cells at the same time.
    Cells(const Widths& widths, size_t parts) : followers_(2 * parts), parts_(parts) {
        clear(widths);
    }

    void clear(const Widths& widths) {
        Pool alone(1);
        reset(1, widths, 0, 0, alone);
    }
    // Forget all, and make room for so many tuples of either side, from these sequence numbers on.
    void reset(size_t tuples, const Widths& widths, u64 r, u64 s, Pool& pool) {
        shape(widths);
        size_t lanes = std::min(sides_[0].lanes, sides_[1].lanes);
        cells_ = std::max<size_t>(16, 3 * tuples / lanes);  // a third full: then few lines are full
        lines_.resize(2 * cells_);
        u32 none[2] = {u32(r - 1), u32(s - 1)};
        pool.run(pool.size(), [&](size_t part) {  // most of it is that memory is new
            size_t from = cells_ * part / pool.size(), to = cells_ * (part + 1) / pool.size();
            for (size_t i = 2 * from; i < 2 * to; i++) {
                std::fill_n(refs(lines_[i]), LANES, none[i & 1]);
                link(lines_[i]) = 0;
            }
        }, tuples >= FEW);
        scale_ = (u64(parts_) << 32) / cells_;
        for (Followers& some : followers_) {
            some.begin = some.end = 1;
            some.newest.assign(16, 0);
            some.lines.resize(16);
        }
    }

    bool fits(int s, const Box& box) const {
        bool all = true;
        for (int d = 0; d < D; d++)
            all &= !(sides_[s].even >> d & 1) || box.high[d] - box.low[d] == sides_[s].width[d];
        return all;
    }

private:
    void shape(const Widths& widths) {
        for (int s : {0, 1}) {
            u32 even = 0;
            for (int d = 0; d < D; d++) even |= u32(widths[s][d] != UNEVEN) << d;
            sides_[s] = Side(even);
            for (int d = 0; d < D; d++) sides_[s].width[d] = even >> d & 1 ? widths[s][d] : 0;
        }
    }

public:
    size_t size() const { return cells_; }
    size_t parts() const { return parts_; }
    size_t part(size_t cell) const { return cell * scale_ >> 32; }
    // The cell that serves for a number; those that are some way apart share one.
    size_t home(u64 number) const {
        return number < cells_ ? number : (number + (u64(cells_) << 32)) % cells_;
    }
    size_t bytes() const {
        size_t lines = lines_.capacity();
        for (const Followers& some : followers_) lines += some.lines.capacity();
        return sizeof(Line) * lines;
    }

    // Fetch what a visit looks at. The compiler takes a function that only fetches for one without
    // effect, and leaves out calls of it.
    [[gnu::always_inline]] void prefetch(const Visit& visit) const {
        const u8* other = line(visit.cell, 1 - visit.side()).bytes;
        const u8* own = visit.stores() ? line(visit.cell, visit.side()).bytes : other;
        for (size_t at = 0; at < BYTES; at += 64) {
            __builtin_prefetch(other + at);
            __builtin_prefetch(own + at);
        }
    }

    // Store a tuple; what is below `oldest` is not asked for any more. `sequence` tells its number.
    template <int SIDE, class Sequence>
    [[gnu::always_inline]] void insert(const Visit& visit, u32 oldest, const Sequence& sequence) {
        Line& at = line(visit.cell, SIDE);
        shaped(sides_[SIDE], [&]<u32 EVEN>() __attribute__((always_inline)) {
            constexpr Shape SHAPE(EVEN);
            u32 free = SHAPE.all & ~from8(refs(at), oldest);
            if (!free) [[unlikely]] {
                pass_on(followers(visit.cell, SIDE), at, sequence());
                std::fill_n(refs(at), SHAPE.lanes, oldest - 1);
                free = SHAPE.all;
            }
            size_t n = __builtin_ctz(free);
            for (int d = 0; d < D; d++) {
                key<EVEN>(at, SHAPE.low[d])[n] = visit.bounds.low[d];
                if (!(EVEN >> d & 1)) key<EVEN>(at, SHAPE.high[d])[n] = visit.bounds.high[d];
            }
            refs(at)[n] = visit.who;
        });
    }

    // Write down what overlaps a tuple of a side, of the other's from its start on. Returns how many
    // were looked at.
    template <int SIDE> [[gnu::always_inline]] size_t find(const Visit& visit, Writer& out) const {
        const Line* at = &line(visit.cell, 1 - SIDE);
        size_t looked = 0;
        for (;;) {
            u32 young, hits = matches(sides_[1 - SIDE], *at, visit.bounds, visit.start, young);
            looked += __builtin_popcount(young);
            out.template add8<SIDE>(visit.who, refs(*at), hits);
            u32 next = link(*at);
            if (!next) [[likely]] return looked;
            const Followers& behind = followers(visit.cell, 1 - SIDE);
            if (!behind.alive(next)) return looked;
            at = &behind.lines[behind.place(next)];
        }
    }

private:
    // Shapes are few, and code for each of them need not ask where things are.
    template <class Work> [[gnu::always_inline]] static auto shaped(const Side& side, const Work& work) {
        if constexpr (D == 2) {
            if (side.even == 3) return work.template operator()<3>();
            if (side.even == 2) return work.template operator()<2>();
        }
        if (side.even) return work.template operator()<1>();
        return work.template operator()<0>();
    }
    // Tuples of a line that overlap another, and those that are young.
    [[gnu::always_inline]]
    static u32 matches(const Side& side, const Line& at, const Box& bounds, u32 start, u32& young) {
        return shaped(side, [&]<u32 EVEN>() __attribute__((always_inline)) {
            return matches_in<EVEN>(side, at, bounds, start, young);
        });
    }
    template <u32 EVEN> [[gnu::always_inline]]
    static u32 matches_in(const Side& side, const Line& at, const Box& bounds, u32 start, u32& young) {
        constexpr Shape SHAPE(EVEN);
        u32 hits = young = SHAPE.all & from8(refs(at), start);
        for (int d = 0; d < D; d++) {
            K low = bounds.low[d], high = bounds.high[d];
            size_t row = SHAPE.low[d];
            const K* keys = Cells::at<K>(at, SHAPE.offset[row]);
            if (EVEN >> d & 1) {
                K least = low > side.width[d] ? low - side.width[d] : 0;
                hits &= within8(keys, least, K(high - least)) >> SHAPE.shift[row];
            } else {
                const K* highs = Cells::at<K>(at, SHAPE.offset[row + 1]);
                hits &= within8(keys, K(0), high) >> SHAPE.shift[row];
                hits &= within8(highs, low, K(~low)) >> SHAPE.shift[row + 1];
            }
        }
        return hits;
    }

public:
    // Lines whose tuples are all below `oldest` are given to others.
    void expire(int s, u64 oldest) {
        for (size_t part = 0; part < parts_; part++) {
            Followers& some = followers_[2 * part + s];
            while (some.begin < some.end && some.newest[some.place(some.begin)] <= oldest) some.begin++;
        }
    }
    // Ages are compared modulo 2^32: what is old must not come round.
    void sweep(int s, u64 oldest) {
        const Side& side = sides_[s];
        for (size_t cell = 0; cell < cells_; cell++) {
            Line& at = line(cell, s);
            for (u32 old = side.all & ~from8(refs(at), u32(oldest)); old; old &= old - 1)
                refs(at)[__builtin_ctz(old)] = u32(oldest - 1);
            const Followers& behind = followers(cell, s);
            if (!behind.alive(link(at))) link(at) = u32(behind.begin - 1);
        }
    }

    // All tuples of a side from `oldest` on, and some more, by age.
    std::vector<Tuple> all(int s, u64 oldest, std::vector<Tuple> some = {}) const {
        const Side& side = sides_[s];
        std::vector<Tuple> sorted;
        auto add = [&](const Line& at) {
            for (u32 young = side.all & from8(refs(at), u32(oldest)); young; young &= young - 1) {
                size_t i = __builtin_ctz(young);
                Tuple one;
                one.ref = refs(at)[i];
                for (int d = 0; d < D; d++) {
                    one.bounds.low[d] = key(side, at, side.low[d])[i];
                    one.bounds.high[d] = key(side, at, side.high[d])[i] + side.width[d];
                }
                some.push_back(one);
            }
        };
        for (size_t cell = 0; cell < cells_; cell++) add(line(cell, s));
        for (size_t part = 0; part < parts_; part++) {
            const Followers& behind = followers_[2 * part + s];
            for (u64 number = behind.begin; number < behind.end; number++)
                add(behind.lines[behind.place(number)]);
        }
        // Numbers of what is young are close together: each finds its place by its age.
        constexpr u32 NONE = u32(-1);
        std::vector<u32> by_age;
        for (u32 i = 0; i < some.size(); i++) {
            u32 age = some[i].ref - u32(oldest);
            if (int32_t(age) < 0) continue;
            if (age >= by_age.size()) by_age.resize(age + 1 + by_age.size(), NONE);
            by_age[age] = i;
        }
        sorted.reserve(some.size());
        for (u32 i : by_age)
            if (i != NONE) sorted.push_back(some[i]);
        return sorted;
    }

private:
    template <class T> static T* at(const Line& line, size_t byte) {
        return reinterpret_cast<T*>(const_cast<u8*>(line.bytes) + byte);
    }
    static u32* refs(const Line& line) { return at<u32>(line, 0); }
    static u32& link(const Line& line) { return *at<u32>(line, LINK); }
    static K* key(const Shape& shape, const Line& line, size_t row) {
        return at<K>(line, shape.offset[row]) + shape.shift[row];
    }
    template <u32 EVEN> static K* key(const Line& line, size_t row) {
        constexpr Shape SHAPE(EVEN);
        return key(SHAPE, line, row);
    }
    const Line& line(size_t cell, int s) const { return lines_[2 * cell + s]; }
    Line& line(size_t cell, int s) { return lines_[2 * cell + s]; }

    Followers& followers(size_t cell, int s) { return followers_[2 * part(cell) + s]; }
    const Followers& followers(size_t cell, int s) const { return followers_[2 * part(cell) + s]; }

    // Copy a full line to another one behind it.
    static void pass_on(Followers& behind, Line& full, u64 sequence) {
        if (behind.end - behind.begin + 1 >= behind.newest.size()) grow(behind);
        if (!u32(behind.end)) behind.newest[behind.place(behind.end++)] = 0;  // 0 is none
        u64 number = behind.end++;
        behind.newest[behind.place(number)] = sequence;
        behind.lines[behind.place(number)] = full;
        link(full) = u32(number);
    }

    static void grow(Followers& some) {
        size_t before = some.newest.size();
        some.newest.resize(2 * before);
        some.lines.resize(2 * before);
        for (u64 number = some.begin; number < some.end; number++) {  // some have another place now
            size_t from = number & (before - 1), to = some.place(number);
            some.newest[to] = some.newest[from];
            some.lines[to] = some.lines[from];
        }
    }
};

}  // namespace eddyline
