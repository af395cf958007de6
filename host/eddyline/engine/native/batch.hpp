// Tuples that were pushed together, on their way through the join.
#pragma once
#include "access.hpp"

namespace eddyline {

struct Batch {
    std::vector<u8> sides, records[2];
    u64 first[2];                       // sequence number of each side's first tuple
    std::vector<u32> arrival[2];        // place in the batch, by place on the side
    std::vector<u64> start[2], stop[2]; // partners, as sequence numbers of the other side
    u64 most_start[2];                  // of those
    i64 now = 0;                        // time of the last arrival
    // Of a join that stores a share of its tuples: which, by place on the side. An arrival then
    // meets only what is stored here.
    bool shared = false;
    std::vector<u8> stores[2];
    u64 stored[2];                      // how many
    const u8* written = nullptr;        // keys that another join has made

    // Where tuples may come in any order: who meets, the times of each side's tuples, and those below
    // which none comes after this batch.
    Reach reach;
    i64 oldest[2] = {LATEST, LATEST}, newest[2] = {EARLIEST, EARLIEST}, watermark[2] = {EARLIEST, EARLIEST};

    // Forget all but the room that was taken.
    void clear() {
        Batch empty;
        for (int side : {0, 1}) {
            std::swap(empty.records[side], records[side]);
            std::swap(empty.arrival[side], arrival[side]);
            std::swap(empty.start[side], start[side]);
            std::swap(empty.stop[side], stop[side]);
        }
        std::swap(empty.sides, sides);
        *this = std::move(empty);
    }

    size_t size(int side) const { return arrival[side].size(); }
};

}  // namespace eddyline
