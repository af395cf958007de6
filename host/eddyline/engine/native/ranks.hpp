// Numbers that spread keys evenly.
#pragma once
#include "items.hpp"

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

}  // namespace eddyline
