// How a conjunction is looked up: which words make the keys of an index, and what is left to test.
#pragma once
#include "predicate.hpp"
#include "structure.hpp"

namespace eddyline {

// Of each side, the words between which the other side's must lie; -1 where there is no bound.
struct Dimension { int low[2], high[2]; };

struct Path {
    Kind kind;
    bool wide;                                // keys of 64 bits, else 32
    bool narrow;                              // no word of a dimension has more than 32 bits
    bool hashed;                              // the group is hashed into its bits
    bool complement;                          // what is not found matches: inequality
    int group_bits, range_bits, truncated;    // of the key, and bits that a range word loses
    std::vector<std::array<int, 3>> group;    // words of r and of s that are equal, and their width
    std::vector<Dimension> dimensions;        // none, one, or two: then the first makes strips
    u64 needed[2];                            // validity bits without which nothing matches
    Program residual;                         // on candidates; empty where keys decide all
    double sigma;
    u32 buffer;                               // BI-Sort's insertion buffer
    u32 width;                                // tuples per partition of the others

    bool strips() const { return dimensions.size() == 2; }
    bool intervals(int side) const {
        if (dimensions.empty()) return false;
        const Dimension& last = dimensions.back();
        return last.low[side] != last.high[side];
    }

    u64 group_key(const Layout& layout, const u8* record, int side) const {
        u64 key = 0;
        for (const auto& [r, s, width] : group) {
            u64 word = layout.word(record, side ? s : r);
            if (!hashed) key = (width == 64 ? 0 : key << width) | word;
            else key = mixed(key ^ word) + 0x9E3779B97F4A7C15ull;
        }
        return hashed && group_bits < 64 ? key >> (64 - group_bits) : key;
    }

    static u64 mixed(u64 z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }

    // Bounds of a tuple in one dimension.
    std::pair<u64, u64> bounds(const Layout& layout, const u8* record, int side, size_t number) const {
        const Dimension& d = dimensions[number];
        u64 low = d.low[side] < 0 ? 0 : layout.word(record, d.low[side]);
        u64 high = d.high[side] < 0 ? ~u64(0) : layout.word(record, d.high[side]);
        return {low, high};
    }

    // The interval that a tuple has in the index, behind what stands above it: group or strip.
    std::pair<u64, u64> interval(u64 above, u64 low, u64 high) const {
        if (!range_bits) return {above, above};
        u64 all = range_bits == 64 ? ~u64(0) : (u64(1) << range_bits) - 1;
        u64 prefix = range_bits == 64 ? 0 : above << range_bits;
        return {prefix | std::min(low >> truncated, all), prefix | std::min(high >> truncated, all)};
    }
};

}  // namespace eddyline
