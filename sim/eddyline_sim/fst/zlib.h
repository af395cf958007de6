// The two functions of zlib that Verilator's waveform writer calls, so that waveforms need no
// library on the machine. Nothing is compressed: stored blocks are larger than their content, and
// the writer then takes the content itself. Only indices are written this way, not values.
#pragma once

#include <cstring>

typedef unsigned char Bytef;
typedef unsigned long uLong;
typedef unsigned long uLongf;
constexpr int Z_OK = 0;

inline uLong compressBound(uLong size) { return size + 5 * (size / 65535 + 1) + 6; }

inline int compress2(Bytef* target, uLongf* target_size, const Bytef* source, uLong size, int) {
    Bytef* out = target;
    *out++ = 0x78;
    *out++ = 0x01;
    uLong a = 1, b = 0, at = 0;
    do {
        const uLong part = size - at < 65535 ? size - at : 65535;
        *out++ = at + part == size;
        for (const uLong value : {part, ~part}) {
            *out++ = Bytef(value);
            *out++ = Bytef(value >> 8);
        }
        for (const uLong end = at + part; at < end; ++at) {
            *out++ = source[at];
            a = (a + source[at]) % 65521;
            b = (b + a) % 65521;
        }
    } while (at < size);
    for (const uLong value : {b >> 8, b, a >> 8, a}) *out++ = Bytef(value);
    *target_size = uLongf(out - target);
    return Z_OK;
}
