// The two functions of LZ4 that Verilator's waveform writer calls, so that waveforms need no
// library on the machine. Greedy matching over one hash table, in the LZ4 block format: a token
// (length of literals, length of match - 4), literals, and a distance of up to 65535 back.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

namespace eddyline_lz4 {

inline char* put_length(char* out, int rest) {
    for (; rest >= 255; rest -= 255) *out++ = char(255);
    *out++ = char(rest);
    return out;
}

inline char* put_sequence(char* out, const char* literals, int count, int distance, int match) {
    const int more = match ? match - 4 : 0;
    *out++ = char((count < 15 ? count : 15) << 4 | (more < 15 ? more : 15));
    if (count >= 15) out = put_length(out, count - 15);
    if (count) std::memcpy(out, literals, count);
    out += count;
    if (match) {
        *out++ = char(distance & 255);
        *out++ = char(distance >> 8);
        if (more >= 15) out = put_length(out, more - 15);
    }
    return out;
}

inline uint32_t four(const char* at) {
    uint32_t value;
    std::memcpy(&value, at, 4);
    return value;
}

}  // namespace eddyline_lz4

inline int LZ4_compress_default(const char* source, char* target, int size, int) {
    using namespace eddyline_lz4;
    std::vector<int> last(1 << 12, -1);  // where four bytes of this hash were seen last
    char* out = target;
    int literals = 0;
    // The format wants the last five bytes as literals, and no match to begin in the last twelve.
    for (int at = 0; at < size - 12;) {
        const uint32_t here = four(source + at);
        int& seen = last[here * 2654435761u >> 20];
        const int from = seen;
        seen = at;
        if (from < 0 || at - from > 65535 || four(source + from) != here) {
            ++at;
            continue;
        }
        int match = 4;
        while (at + match < size - 5 && source[from + match] == source[at + match]) ++match;
        out = put_sequence(out, source + literals, at - literals, at - from, match);
        at += match;
        literals = at;
    }
    return int(put_sequence(out, source + literals, size - literals, 0, 0) - target);
}
