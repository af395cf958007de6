// The part of a predicate that an index does not decide, on candidates: pairs of sequence numbers.
#pragma once
#include "columns.hpp"

namespace eddyline {

class Program {
public:
    static constexpr size_t CHUNK = 256;
    enum Op { COMPARE, FLAG, ALL, ANY, NOT };
    struct Line { i64 op, x, y, z; };

    std::vector<Line> lines;  // postfix

    bool empty() const { return lines.empty(); }

    // Leave in `keep` which of up to CHUNK candidates satisfy the predicate.
    void run(const Columns& r, const Columns& s, const u64* at_r, const u64* at_s, size_t n,
             u8* keep) {
        size_t top = 0;
        for (const Line& line : lines) {
            if (line.op == COMPARE || line.op == FLAG) {
                if (stack_.size() <= top) stack_.emplace_back();
                u8* mask = stack_[top++].data();
                if (line.op == FLAG) flag(line.x ? s : r, line.x ? at_s : at_r, line.y, n, mask);
                else compare(line, r, s, at_r, at_s, n, mask);
            } else if (line.op == NOT) {
                u8* mask = stack_[top - 1].data();
                for (size_t i = 0; i < n; i++) mask[i] ^= 1;
            } else {
                if (!line.x) {  // of nothing: all holds, any does not
                    if (stack_.size() <= top) stack_.emplace_back();
                    std::memset(stack_[top++].data(), line.op == ALL, n);
                    continue;
                }
                top -= line.x - 1;
                u8* mask = stack_[top - 1].data();
                for (i64 other = 0; other + 1 < line.x; other++) {
                    const u8* more = stack_[top + other].data();
                    if (line.op == ALL) for (size_t i = 0; i < n; i++) mask[i] &= more[i];
                    else for (size_t i = 0; i < n; i++) mask[i] |= more[i];
                }
            }
        }
        std::memcpy(keep, stack_[0].data(), n);
    }

private:
    std::vector<std::array<u8, CHUNK>> stack_;

    static void flag(const Columns& side, const u64* at, i64 bit, size_t n, u8* mask) {
        for (size_t i = 0; i < n; i++) mask[i] = side.valid[at[i] - side.base] >> bit & 1;
    }

    static void compare(const Line& line, const Columns& r, const Columns& s, const u64* at_r,
                        const u64* at_s, size_t n, u8* mask) {
        const u64 *left = r.words[line.x].data(), *right = s.words[line.z].data();
        auto each = [&](auto holds) {
            for (size_t i = 0; i < n; i++)
                mask[i] = holds(left[at_r[i] - r.base], right[at_s[i] - s.base]);
        };
        switch (line.y) {
            case 0: each([](u64 a, u64 b) { return a == b; }); break;
            case 1: each([](u64 a, u64 b) { return a != b; }); break;
            case 2: each([](u64 a, u64 b) { return a <= b; }); break;
            default: each([](u64 a, u64 b) { return a >= b; });
        }
        if (r.keeps_valid)
            for (size_t i = 0; i < n; i++)
                mask[i] &= r.valid[at_r[i] - r.base] >> line.x & s.valid[at_s[i] - s.base] >> line.z & 1;
    }
};

}  // namespace eddyline
