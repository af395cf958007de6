// Both sides' tuples in cells: a cell has a few cache lines, some for each side, side by side. What
// is too old is written over, so nothing is ever deleted; a line that is full of young tuples passes
// them on to another one, which follows it.
#pragma once
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
    // Those of eight partners whose bit is set.
    void add8(int side, u32 who, const u32* partners, u32 bits) {
        room(LANES);
        for (size_t i = 0; i < LANES; i++) at[side][n + i] = who;
        compress8(&at[1 - side][n], partners, bits);
        n += __builtin_popcount(bits);
    }
    void add(int side, u32 who, u32 partner) { add8(side, who, std::array<u32, LANES>{partner}.data(), 1); }
};

template <class K, int D> class Cells {
    static constexpr size_t BYTES = 16 * D * sizeof(K), LINK = BYTES - 4;
    // Refs, then each bound of all of them, and last a link to the line that follows.
    struct alignas(64) Line { u8 bytes[BYTES]; };
    struct Side {
        int rows, low[D], high[D];            // of bounds; an even one has its lower bound alone
        K width[D];                           // and is so much wider than a value
        size_t offset[2 * D], shift[2 * D];   // where to read eight of a bound, and how many too early
        size_t lanes;                         // tuples of a line
        u32 all;                              // a bit for each
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

    // Of each side and dimension, how much the upper bound of all tuples is above the lower one, or
    // UNEVEN: then both are stored.
    static constexpr K UNEVEN = std::numeric_limits<K>::max();
    using Widths = std::array<std::array<K, D>, 2>;

    // Threads may work on different parts of the cells at the same time.
    Cells(const Widths& widths, size_t parts) : followers_(2 * parts), parts_(parts) {
        reset(1, widths, 0, 0);
    }

    // Forget all, and make room for so many tuples of either side, from these sequence numbers on.
    void reset(size_t tuples, const Widths& widths, u64 r, u64 s) {
        shape(widths);
        size_t lanes = std::min(sides_[0].lanes, sides_[1].lanes);
        cells_ = std::max<size_t>(16, 2 * tuples / lanes);  // half full, so that a line is seldom full
        lines_.resize(2 * cells_);
        u64 oldest[2] = {r, s};
        for (size_t i = 0; i < lines_.size(); i++) {
            std::fill_n(refs(lines_[i]), LANES, u32(oldest[i & 1] - 1));
            link(lines_[i]) = 0;
        }
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
            all &= sides_[s].low[d] != sides_[s].high[d] || box.high[d] - box.low[d] == sides_[s].width[d];
        return all;
    }

private:
    void shape(const Widths& widths) {
        for (int s : {0, 1}) {
            Side& side = sides_[s];
            side.rows = 0;
            for (int d = 0; d < D; d++) {
                bool even = widths[s][d] != UNEVEN;
                side.low[d] = side.rows++;
                side.high[d] = even ? side.low[d] : side.rows++;
                side.width[d] = even ? widths[s][d] : 0;
            }
            side.lanes = std::min(LANES, LINK / (4 + side.rows * sizeof(K)));
            if (sizeof(K) == 8) side.lanes &= ~size_t(1);
            side.all = (u32(1) << side.lanes) - 1;
            for (int row = 0; row < side.rows; row++) {
                size_t at = side.lanes * (4 + row * sizeof(K));
                side.offset[row] = std::min(at, BYTES - LANES * sizeof(K));  // not beyond the end
                side.shift[row] = (at - side.offset[row]) / sizeof(K);
            }
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

    // Fetch a cell that a tuple looks at, and stores itself in or not. The compiler takes a function
    // that only fetches for one without effect, and leaves out calls of it.
    [[gnu::always_inline]] void prefetch(size_t cell, int side, bool stores) const {
        const u8* other = line(cell, 1 - side).bytes;
        const u8* own = stores ? line(cell, side).bytes : other;
        for (size_t at = 0; at < BYTES; at += 64) {
            __builtin_prefetch(other + at);
            __builtin_prefetch(own + at);
        }
    }

    // Store a tuple; what is below `oldest` is not asked for any more.
    void insert(size_t cell, int s, const Box& bounds, u64 sequence, u32 oldest) {
        Side& side = sides_[s];
        Line& at = line(cell, s);
        u32 free = side.all & ~from8(refs(at), oldest);
        if (!free) [[unlikely]] {
            pass_on(followers(cell, s), at, sequence);
            std::fill_n(refs(at), side.lanes, oldest - 1);
            free = side.all;
        }
        size_t n = __builtin_ctz(free);
        for (int d = 0; d < D; d++) {
            key(side, at, side.high[d])[n] = bounds.high[d];
            key(side, at, side.low[d])[n] = bounds.low[d];  // in the same place, if even
        }
        refs(at)[n] = u32(sequence);
    }

    // Write down what overlaps a tuple of a side, of the other's from `start` on. Returns how many
    // were looked at.
    size_t find(size_t cell, int s, const Box& bounds, u32 start, u32 who, Steps& out) const {
        const Side& other = sides_[1 - s];
        const Followers& behind = followers(cell, 1 - s);
        const Line* at = &line(cell, 1 - s);
        size_t looked = 0;
        K least[D];  // of an upper bound, or of the lower bound that stands for it
        for (int d = 0; d < D; d++) least[d] = bounds.low[d] - std::min(bounds.low[d], other.width[d]);
        for (;;) {
            u32 hits = other.all & from8(refs(*at), start);
            looked += __builtin_popcount(hits);
            for (int d = 0; d < D; d++) {
                int low = other.low[d], high = other.high[d];
                hits &= bounded8<true>(eight(other, *at, low), bounds.high[d]) >> other.shift[low];
                hits &= bounded8<false>(eight(other, *at, high), least[d]) >> other.shift[high];
            }
            out.add8(s, who, refs(*at), hits);
            u32 next = link(*at);
            if (!behind.alive(next)) [[likely]] return looked;
            at = &behind.lines[behind.place(next)];
        }
    }

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
        Items<u32> ages;
        for (u32 i = 0; i < some.size(); i++) ages.push(some[i].ref - u32(oldest), 0, i);
        Sorter<u32>().sort(ages);
        for (u32 i : ages.ref) sorted.push_back(some[i]);
        return sorted;
    }

private:
    template <class T> static T* at(const Line& line, size_t byte) {
        return reinterpret_cast<T*>(const_cast<u8*>(line.bytes) + byte);
    }
    static u32* refs(const Line& line) { return at<u32>(line, 0); }
    static u32& link(const Line& line) { return *at<u32>(line, LINK); }
    static const K* eight(const Side& side, const Line& line, int row) {
        return at<K>(line, side.offset[row]);
    }
    static K* key(const Side& side, const Line& line, int row) {
        return at<K>(line, side.offset[row]) + side.shift[row];
    }
    const Line& line(size_t cell, int s) const { return lines_[2 * cell + s]; }
    Line& line(size_t cell, int s) { return lines_[2 * cell + s]; }

    Followers& followers(size_t cell, int s) { return followers_[2 * part(cell) + s]; }
    const Followers& followers(size_t cell, int s) const { return followers_[2 * part(cell) + s]; }

    // Copy a full line to another one behind it.
    static void pass_on(Followers& behind, Line& full, u64 sequence) {
        if (behind.end - behind.begin == behind.newest.size()) grow(behind);
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
