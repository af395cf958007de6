// Numbers that spread keys evenly.
#pragma once
#include "items.hpp"

namespace eddyline {

// A rising map from keys to numbers that spreads what was seen evenly over 2^BITS of them: the share
// of a sample that lies below, straight in between and beyond. Floats and skewed keys need this;
// cells of equal width would hold everything, or nothing. Keys are cut into pieces of equal width,
// and a piece with much of the sample again.
class Ranks {
    static constexpr size_t PIECES = 1024, SHARE = 64, ENOUGH = 128;  // of the sample for a piece
    // Keys from `base` on, in pieces of 2^shift from `first` on; of a place in one, bits from `cut` on count.
    struct Node { u64 base, within; int shift, cut; u32 first; };
    struct Piece { u64 slope; u32 rank, node; };  // ranks per key, times 2^32; another node, or none
    std::vector<Node> nodes_;
    std::vector<Piece> pieces_;
    Node top_{};         // the first, where it is at hand
    u64 range_ = 0;      // from the least key that was seen to the most
    double beyond_ = 0;  // ranks of a key outside of what was seen

public:
    static constexpr int BITS = 24;
    static constexpr double ALL = 1 << BITS, FAR = 1 << 30;
    Ranks() { forget(); }

    void learn(std::vector<u64>& sample) {
        forget();
        std::sort(sample.begin(), sample.end());
        if (sample.empty() || sample[0] == sample.back()) return;
        pieces_.clear();
        range_ = sample.back() - sample[0];
        beyond_ = ALL / double(range_);
        divide(sample, 0, sample.size(), sample[0], sample.back());
        top_ = nodes_[0];
    }

    int32_t of(u64 key) const {
        u64 above = key - top_.base;
        if (above > range_) [[unlikely]] return outside(key);
        const Piece& piece = pieces_[above >> top_.shift];
        if (piece.node) [[unlikely]] return within(nodes_[piece.node], key);
        return rank(top_, piece, above);
    }

private:
    void forget() {
        nodes_.clear();
        pieces_.assign(1, {});
        top_ = {};
        range_ = 0;
        beyond_ = 0;
    }
    static int32_t rank(const Node& node, const Piece& piece, u64 above) {
        return int32_t(piece.rank + u32(((above & node.within) >> node.cut) * piece.slope >> 32));
    }
    int32_t within(const Node& node, u64 key) const {
        const Piece& piece = pieces_[node.first + ((key - node.base) >> node.shift)];
        return piece.node ? within(nodes_[piece.node], key) : rank(node, piece, key - node.base);
    }
    [[gnu::noinline]] int32_t outside(u64 key) const {
        if (key < top_.base) return -int32_t(std::min(double(top_.base - key) * beyond_, FAR));
        return int32_t((range_ ? ALL : 0) + std::min(double(key - top_.base - range_) * beyond_, FAR));
    }

    // Map the keys from `low` to `high`, which are sample[from:to].
    void divide(const std::vector<u64>& sample, size_t from, size_t to, u64 low, u64 high) {
        int shift = 0;
        while (shift < 63 && (high - low) >> shift >= std::clamp<size_t>((to - from) / ENOUGH, 1, PIECES)) shift++;
        size_t first = pieces_.size(), count = ((high - low) >> shift) + 1, n = sample.size();
        int bits = std::min(shift, 32);
        nodes_.push_back({low, (u64(1) << shift) - 1, shift, shift - bits, u32(first)});
        pieces_.resize(first + count);
        auto rank = [&](size_t at) { return u32((u64(at) << BITS) / n); };
        for (size_t i = 0, at = from; i < count; i++) {
            u64 base = low + (u64(i) << shift), last = i + 1 < count ? base + ((u64(1) << shift) - 1) : high;
            size_t end = std::upper_bound(sample.begin() + at, sample.begin() + to, last) - sample.begin();
            // Rounded down, so that ranks of a piece stay below those of the next.
            Piece piece{(u64(rank(end) - rank(at)) << 32) >> bits, rank(at), 0};
            if (shift && end - at > std::max(n / SHARE, 4 * ENOUGH)) {
                piece.node = nodes_.size();
                divide(sample, at, end, base, last);
            }
            pieces_[first + i] = piece;
            at = end;
        }
    }
};

}  // namespace eddyline
