// Tuples that do not come in order of time: which of them meet.
#pragma once
#include <limits>

#include "items.hpp"

namespace eddyline {

constexpr i64 EARLIEST = std::numeric_limits<i64>::min(), LATEST = std::numeric_limits<i64>::max();

// Whether one time is further behind another than `reach`. A difference may need 64 bits without sign.
inline bool beyond(i64 later, i64 earlier, u64 reach) {
    return later > earlier && u64(later) - u64(earlier) > reach;
}

// Who meets whom by time alone: the later of two tuples, by its time, meets the earlier if that is
// still in the window of its side. Of equal times R is the earlier, and no window is too short for it.
struct Reach {
    bool on = false;          // tuples may come in any order
    u64 of[2] = {0, 0};       // how long a tuple of either side is in its window

    bool near(i64 r, i64 s) const { return !beyond(s, r, of[0]) && !beyond(r, s, of[1]); }
    // Of tuples of `side` and of the other with times between bounds: whether all meet, or none.
    bool all(int side, i64 from, i64 to, i64 other_from, i64 other_to) const {
        return !beyond(to, other_from, of[1 - side]) && !beyond(other_to, from, of[side]);
    }
    bool none(int side, i64 from, i64 to, i64 other_from, i64 other_to) const {
        return beyond(from, other_to, of[1 - side]) || beyond(other_from, to, of[side]);
    }
};

}  // namespace eddyline
