// One structure on its own, with keys of 32 bits, behind a plain C interface.
#pragma once
#include "bisort.hpp"
#include "btree.hpp"
#include "hash.hpp"
#include "pool.hpp"
#include "rap.hpp"
#include "wib.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace eddyline;

namespace {

struct Alone {
    std::unique_ptr<Structure<u32>> structure;
    Items<u32> items;
    Sorter<u32> sorter;
    std::vector<Found> found;
    Pool pool;

    void load(const u32* a, const u32* b, const u32* refs, u64 n) {
        items.clear();
        items.reserve(n);
        for (u64 i = 0; i < n; i++) items.push(a[i], b[i], refs ? refs[i] : u32(i));
        if (structure->sorted()) sorter.sort(items);
    }
};

}  // namespace

EXPORT Alone* eddyline_structure_open(int kind, u64 capacity, u64 partitions, double sigma, u64 buffer,
                                      int intervals, const u64* splitters, u64 n, u64 threads) {
    auto* one = new Alone{nullptr, {}, {}, std::vector<Found>(threads), Pool(threads)};
    std::vector<u64> given(splitters, splitters + n);
    size_t width = std::max<u64>(1, capacity / std::max<u64>(1, partitions));
    switch (Kind(kind)) {
        case Kind::hash: one->structure = std::make_unique<HashRing<u32>>(capacity); break;
        case Kind::rap:
            one->structure = std::make_unique<RapTable<u32>>(intervals, capacity, partitions, sigma, given);
            break;
        case Kind::btree: one->structure = std::make_unique<BTree<u32>>(); break;
        case Kind::wib: one->structure = std::make_unique<WibTree<u32>>(intervals, capacity, width); break;
        default: one->structure = std::make_unique<BiSort<u32>>(intervals, buffer);
    }
    return one;
}
EXPORT void eddyline_structure_close(Alone* one) { delete one; }
EXPORT void eddyline_structure_insert(Alone* one, const u32* a, const u32* b, const u32* refs, u64 n, u64 batch) {
    for (u64 at = 0; at < n; at += batch) {
        one->load(a + at, b + at, refs + at, std::min(batch, n - at));
        one->structure->insert(one->items);
    }
}
// Look up batch after batch; returns how many pairs were found, in how many records.
EXPORT void eddyline_structure_probe(Alone* one, const u32* a, const u32* b, u64 n, u64 batch, u64* pairs, u64* records) {
    size_t parts = one->pool.size();
    *pairs = *records = 0;
    for (Found& found : one->found) found.clear();
    for (u64 at = 0; at < n; at += batch) {
        u64 some = std::min(batch, n - at);
        one->load(a + at, b + at, nullptr, some);
        one->pool.run(parts, [&](size_t i) {
            one->found[i].clear();
            one->structure->probe(one->items, some * i / parts, some * (i + 1) / parts, one->found[i]);
        });
        for (const Found& found : one->found)
            for (const auto* kind : {&found.ranges, &found.copies})
                for (const Record& record : *kind) { *pairs += record.end - record.begin; ++*records; }
    }
}
// Write down the pairs of the last batch, as places in it and refs.
EXPORT void eddyline_structure_pairs(const Alone* one, u32* places, u32* refs) {
    for (const Found& found : one->found) {
        auto write = [&](const std::vector<Record>& records, const u32* from) {
            for (const Record& record : records)
                for (u32 i = record.begin; i < record.end; i++) { *places++ = record.probe; *refs++ = from[i]; }
        };
        write(found.ranges, one->structure->refs());
        write(found.copies, found.copied.data());
    }
}
EXPORT void eddyline_structure_seal(Alone* one) { one->structure->seal(); }
EXPORT void eddyline_structure_expire(Alone* one, u64 sequence) { one->structure->expire(sequence); }
// Tuples, bytes; then of a tree: leaves, the largest of them, levels, and whether it is in order; of
// a table: entries in use, and tuples that fit into one.
EXPORT void eddyline_structure_report(const Alone* one, u64* to) {
    to[0] = one->structure->size();
    to[1] = one->structure->bytes();
    if (auto* tree = dynamic_cast<WibTree<u32>*>(one->structure.get())) {
        to[2] = tree->leaves();
        to[3] = tree->largest_leaf();
        to[4] = tree->depth();
        to[5] = tree->ordered();
    } else if (auto* table = dynamic_cast<RapTable<u32>*>(one->structure.get())) {
        to[2] = table->entries_used();
        to[3] = table->entry_width();
    }
}
// Tuples per partition of a RaP-Table, and the splitters that follow from them.
EXPORT u64 eddyline_structure_histogram(const Alone* one, u64* counts, u64* splitters) {
    auto* table = dynamic_cast<RapTable<u32>*>(one->structure.get());
    if (!table) return 0;
    for (const Histogram& partition : table->histogram()) *counts++ = partition.count;
    for (u64 splitter : adjusted(table->histogram(), table->histogram().size())) *splitters++ = splitter;
    return table->histogram().size();
}
