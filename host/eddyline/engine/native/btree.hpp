// A plain B+-tree for comparison (PanJoin, figure 11f): sorted leaves of 256 bytes, as in Google's
// C++ B-tree, and no batches: every tuple goes down from the root. Only values, not intervals.
#pragma once
#include "structure.hpp"

namespace eddyline {

template <class K> class BTree : public Structure<K> {
    static constexpr u32 WIDTH = 256 / (sizeof(K) + sizeof(u32)), NONE = ~u32(0);

    struct Leaf { u32 count = 0, next = NONE; K keys[WIDTH]; u32 refs[WIDTH]; };
    // Child i has keys up to keys[i], and from keys[i - 1] on.
    struct Inner { u32 count = 0; bool bottom; K keys[WIDTH]; u32 children[WIDTH + 1]; };
    struct Split { bool happened = false; K key; u32 right; };

    std::vector<Leaf> leaves_{1};
    std::vector<Inner> inner_;
    u32 root_ = 0;
    size_t size_ = 0;
    bool flat_ = true;  // the root is a leaf

public:
    bool sorted() const override { return false; }
    size_t size() const override { return size_; }
    size_t bytes() const override { return leaves_.capacity() * sizeof(Leaf) + inner_.capacity() * sizeof(Inner); }

    void insert(const Items<K>& batch) override {
        for (size_t i = 0; i < batch.size(); i++) {
            Split split = flat_ ? insert_leaf(root_, batch.a[i], batch.ref[i]) : insert_inner(root_, batch.a[i], batch.ref[i]);
            size_++;
            if (!split.happened) continue;
            Inner above;
            above.count = 1;
            above.bottom = flat_;
            above.keys[0] = split.key;
            above.children[0] = root_;
            above.children[1] = split.right;
            root_ = u32(inner_.size());
            inner_.push_back(above);
            flat_ = false;
        }
    }

    void probe(const Items<K>& batch, size_t from, size_t to, Found& found) const override {
        for (size_t i = from; i < to; i++) {
            u32 at = root_;
            for (bool leaf = flat_; !leaf;) {
                const Inner& node = inner_[at];
                at = node.children[std::lower_bound(node.keys, node.keys + node.count, batch.a[i]) - node.keys];
                leaf = node.bottom;
            }
            size_t first = found.copied.size();
            const Leaf* leaf = &leaves_[at];
            u32 place = u32(std::lower_bound(leaf->keys, leaf->keys + leaf->count, batch.a[i]) - leaf->keys);
            for (;; place++) {
                if (place == leaf->count) {
                    if (leaf->next == NONE) break;
                    leaf = &leaves_[leaf->next];
                    place = 0;
                }
                if (leaf->keys[place] > batch.b[i]) break;
                found.copied.push_back(leaf->refs[place]);
            }
            found.examined += found.copied.size() - first;
            if (found.copied.size() > first)
                found.copies.push_back({batch.ref[i], u32(first), u32(found.copied.size())});
        }
    }

    void entries(Items<K>& all) const override {
        for (const Leaf& leaf : leaves_)
            for (u32 i = 0; i < leaf.count; i++) all.push(leaf.keys[i], leaf.keys[i], leaf.refs[i]);
    }

private:
    template <class T> static void put(T* to, u32 count, u32 place, T value) {
        std::copy_backward(to + place, to + count, to + count + 1);
        to[place] = value;
    }

    Split insert_leaf(u32 at, K key, u32 ref) {
        Split split;
        if (leaves_[at].count == WIDTH) {
            Leaf right;
            Leaf& left = leaves_[at];
            left.count = WIDTH / 2;
            right.count = WIDTH - left.count;
            std::copy_n(left.keys + left.count, right.count, right.keys);
            std::copy_n(left.refs + left.count, right.count, right.refs);
            right.next = left.next;
            left.next = u32(leaves_.size());
            split = {true, right.keys[0], left.next};
            leaves_.push_back(right);
            if (key >= split.key) at = split.right;
        }
        Leaf& leaf = leaves_[at];
        u32 place = u32(std::upper_bound(leaf.keys, leaf.keys + leaf.count, key) - leaf.keys);
        put(leaf.keys, leaf.count, place, key);
        put(leaf.refs, leaf.count++, place, ref);
        return split;
    }

    Split insert_inner(u32 at, K key, u32 ref) {
        u32 place = u32(std::upper_bound(inner_[at].keys, inner_[at].keys + inner_[at].count, key) - inner_[at].keys);
        u32 child = inner_[at].children[place];
        Split below = inner_[at].bottom ? insert_leaf(child, key, ref) : insert_inner(child, key, ref), split;
        if (!below.happened) return split;
        if (inner_[at].count == WIDTH) {
            Inner right;
            Inner& left = inner_[at];
            left.count = WIDTH / 2;
            right.bottom = left.bottom;
            right.count = WIDTH - left.count - 1;
            std::copy_n(left.keys + left.count + 1, right.count, right.keys);
            std::copy_n(left.children + left.count + 1, right.count + 1, right.children);
            split = {true, left.keys[left.count], u32(inner_.size())};
            if (place > left.count) { place -= left.count + 1; at = split.right; }
            inner_.push_back(right);
        }
        Inner& node = inner_[at];
        put(node.keys, node.count, place, below.key);
        put(node.children, ++node.count, place + 1, below.right);
        return split;
    }
};

}  // namespace eddyline
