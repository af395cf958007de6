// WiB+-Tree (PanJoin, section III-C): small sorted inner nodes over wide unsorted leaves. A leaf
// splits at its median, for which it need not be sorted. Equal keys share a leaf, so no inner node
// has a key twice.
#pragma once
#include "llat.hpp"

namespace eddyline {

template <class K> class WibTree : public Structure<K> {
    static constexpr size_t FANOUT = 64;

    struct Leaf {
        u32 first, last;   // entries of the table
        u32 count, next;   // tuples, and the leaf behind
        K low, reach;      // least key that belongs here, and the largest b
        u32 splits_at;     // tuples that call for a split; grows while all keys are equal
    };
    // Child i has the keys from keys[i - 1] up to below keys[i].
    struct Node { std::vector<K> keys; std::vector<u32> children; bool bottom; };
    struct Step { u32 node; K low, high; bool bounded; };  // a node, and the keys below it

    Llat<K> table_;
    std::vector<Leaf> leaves_;
    std::vector<Node> nodes_;
    u32 root_ = 0;
    size_t size_ = 0;
    bool intervals_;
    std::vector<Step> path_;     // to where the last tuple went
    Items<K> splitting_;
    std::vector<u32> order_;     // of intervals: leaves from left to right, and the largest b up to each
    std::vector<K> reach_;

public:
    WibTree(bool intervals, size_t capacity, size_t width)
        : table_(2 * (capacity / width + 1), width, intervals), intervals_(intervals) {
        u32 entry = table_.take();
        leaves_.push_back({entry, entry, 0, NONE, 0, 0, u32(width)});
        order_.push_back(0);
        reach_.push_back(0);
        nodes_.push_back({{}, {0}, true});
    }

    size_t leaves() const { return leaves_.size(); }
    size_t largest_leaf() const {
        size_t most = 0;
        for (const Leaf& leaf : leaves_) most = std::max<size_t>(most, leaf.count);
        return most;
    }
    size_t depth() const {
        size_t levels = 1;
        for (u32 node = root_; !nodes_[node].bottom; node = nodes_[node].children[0]) levels++;
        return levels;
    }

    // Whether borders rise, each once, every leaf holds its count of keys between its borders, and it is
    // known how far the intervals up to each reach.
    bool ordered() const {
        size_t walked = 0, tuples = 0;
        K reach = 0;
        for (u32 at = 0; at != NONE; at = leaves_[at].next, walked++) {
            const Leaf& leaf = leaves_[at];
            bool last = leaf.next == NONE;
            if (!last && leaves_[leaf.next].low <= leaf.low) return false;
            size_t count = 0;
            for (u32 entry = leaf.first; entry != NONE; entry = table_.next(entry))
                for (u32 i = 0; i < table_.count(entry); i++, count++) {
                    K key = table_.a(entry)[i];
                    if (key < leaf.low || (!last && key >= leaves_[leaf.next].low)) return false;
                }
            if (count != leaf.count) return false;
            reach = std::max(reach, leaf.reach);
            if (intervals_ && (order_[walked] != at || reach_[walked] != reach)) return false;
            tuples += count;
        }
        std::vector<K> borders;
        for (const Node& node : nodes_) {
            if (node.children.size() != node.keys.size() + 1) return false;
            borders.insert(borders.end(), node.keys.begin(), node.keys.end());
        }
        std::sort(borders.begin(), borders.end());
        bool unique = std::adjacent_find(borders.begin(), borders.end()) == borders.end();
        return unique && walked == leaves_.size() && tuples == size_;
    }

    void insert(const Items<K>& batch) override {
        path_.clear();
        size_t place = 0;
        for (size_t i = 0; i < batch.size(); i++) {
            u32 at = find(batch.a[i], path_);
            Leaf& leaf = leaves_[at];
            leaf.last = table_.append(leaf.last, batch.a[i], batch.b[i], batch.ref[i]);
            bool splits = ++leaf.count >= leaf.splits_at, further = leaf.reach < batch.b[i];
            leaf.reach = std::max(leaf.reach, batch.b[i]);
            if (intervals_ && (splits || further)) {
                place = place_of(batch.a[i], place);
                for (size_t p = place; p < reach_.size() && reach_[p] < batch.b[i]; p++) reach_[p] = batch.b[i];
            }
            if (splits) split(at, place);
        }
        size_ += batch.size();
    }

    void probe(const Items<K>& batch, size_t from, size_t to, Found& found) const override {
        std::vector<Step> path;
        size_t hint = 0;
        for (size_t i = from; i < to; i++) {
            K a = batch.a[i], b = batch.b[i];
            u32 at;
            if (intervals_) {
                if (hint && !(reach_[hint - 1] < a)) hint = 0;
                hint = rebound(hint, reach_.size(), [&](size_t p) { return reach_[p] < a; });
                at = hint < order_.size() ? order_[hint] : NONE;
            } else {
                at = find(a, path);
            }
            size_t begin = found.copied.size();
            for (; at != NONE && leaves_[at].low <= b; at = leaves_[at].next)
                for (u32 entry = leaves_[at].first; entry != NONE; entry = table_.next(entry)) {
                    found.examined += table_.count(entry);
                    table_.scan(entry, a, b, found.copied);
                }
            if (found.copied.size() > begin)
                found.copies.push_back({batch.ref[i], u32(begin), u32(found.copied.size())});
        }
    }

    size_t size() const override { return size_; }
    size_t bytes() const override {
        size_t inner = 0;
        for (const Node& node : nodes_)
            inner += node.keys.capacity() * sizeof(K) + node.children.capacity() * 4 + sizeof(Node);
        return table_.bytes() + leaves_.capacity() * sizeof(Leaf) + inner + order_.capacity() * 4 +
               reach_.capacity() * sizeof(K);
    }
    void entries(Items<K>& all) const override {
        for (const Leaf& leaf : leaves_)
            for (u32 entry = leaf.first; entry != NONE; entry = table_.next(entry))
                for (u32 i = 0; i < table_.count(entry); i++)
                    all.push(table_.a(entry)[i], table_.b(entry)[i], table_.ref(entry)[i]);
    }

private:
    // Go up the path of the tuple before until the key is below, then down to its leaf.
    u32 find(K key, std::vector<Step>& path) const {
        while (path.size() && (key < path.back().low || (path.back().bounded && key >= path.back().high)))
            path.pop_back();
        if (path.empty()) path.push_back({root_, 0, 0, false});
        for (;;) {
            const Step step = path.back();
            const Node& node = nodes_[step.node];
            size_t child = partition_point(node.keys.data(), node.keys.size(),
                                           [&](K border) { return border <= key; });
            if (node.bottom) return node.children[child];
            bool last = child == node.keys.size();
            path.push_back({node.children[child], child ? node.keys[child - 1] : step.low,
                            last ? step.high : node.keys[child], last ? step.bounded : true});
        }
    }

    // Where the leaf of a key stands, which is not to the left of `hint`.
    size_t place_of(K key, size_t hint) const {
        return rebound(hint, order_.size() - 1, [&](size_t p) { return leaves_[order_[p + 1]].low <= key; });
    }

    void split(u32 at, size_t place) {
        Items<K>& all = splitting_;
        all.clear();
        for (u32 entry = leaves_[at].first; entry != NONE; entry = table_.next(entry))
            for (u32 i = 0; i < table_.count(entry); i++)
                all.push(table_.a(entry)[i], table_.b(entry)[i], table_.ref(entry)[i]);
        K border = border_of(all.a);
        if (!border) {
            leaves_[at].splits_at *= 2;  // one key only: it has to stay together
            return;
        }
        u32 right = leaves_.size(), entry = table_.take();
        leaves_.push_back({entry, entry, 0, leaves_[at].next, border, 0, 0});
        Leaf &left = leaves_[at], &other = leaves_[right];
        table_.empty(left.first);
        left = {left.first, left.first, 0, right, left.low, 0, 0};
        for (size_t i = 0; i < all.size(); i++) {
            Leaf& leaf = all.a[i] < border ? left : other;
            leaf.last = table_.append(leaf.last, all.a[i], all.b[i], all.ref[i]);
            leaf.reach = std::max(leaf.reach, all.b[i]);
            leaf.count++;
        }
        for (Leaf* leaf : {&left, &other})
            leaf->splits_at = leaf->count < table_.width() ? table_.width() : 2 * leaf->count;
        add_child(border, right);
        if (!intervals_) return;
        order_.insert(order_.begin() + place + 1, right);
        reach_.insert(reach_.begin() + place, std::max(place ? reach_[place - 1] : 0, leaves_[at].reach));
    }

    // The least key of the upper half, as nearly half as equal keys allow; 0 if all are equal.
    K border_of(Array<K> keys) const {
        auto middle = keys.begin() + keys.size() / 2;
        std::nth_element(keys.begin(), middle, keys.end());
        K median = *middle, above = std::numeric_limits<K>::max();
        size_t below = 0, up_to = 0;
        for (K key : keys) {
            below += key < median;
            up_to += key <= median;
            if (key > median) above = std::min(above, key);
        }
        size_t half = keys.size() / 2;
        if (below && (up_to == keys.size() || half - below <= up_to - half)) return median;
        return up_to < keys.size() ? above : 0;
    }

    // Put a leaf behind the one that the path leads to, and split nodes that get too wide.
    void add_child(K key, u32 child) {
        size_t level = path_.size() - 1;
        for (;; level--) {
            u32 at = path_[level].node;
            auto& keys = nodes_[at].keys;
            size_t place = std::upper_bound(keys.begin(), keys.end(), key) - keys.begin();
            keys.insert(keys.begin() + place, key);
            nodes_[at].children.insert(nodes_[at].children.begin() + place + 1, child);
            if (keys.size() < FANOUT) break;
            size_t half = keys.size() / 2;
            K up = keys[half];
            Node right{{keys.begin() + half + 1, keys.end()},
                       {nodes_[at].children.begin() + half + 1, nodes_[at].children.end()},
                       nodes_[at].bottom};
            keys.resize(half);
            nodes_[at].children.resize(half + 1);
            child = nodes_.size();
            key = up;
            nodes_.push_back(std::move(right));
            if (!level) {
                nodes_.push_back({{key}, {at, child}, false});
                root_ = nodes_.size() - 1;
                break;
            }
        }
        path_.clear();
    }
};

}  // namespace eddyline
