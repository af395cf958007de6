// Clocks one verilated operator and moves whole buffers through its streams.
//
// design.h, written next to this file for every design, says what its ports are:
//   I_BITS, O_BITS        payload widths
//   I_STAR, O_STAR        position of the star in them, or -1
//   HAS_MERGE, O_MERGE    whether clock domain `merge` is used, and whether `o` belongs to it
//   O_ALWAYS              whether `o` has no ready of its own
//   set_port, get_port    settings and counters by number
// EDDYLINE_TRACE is the class that writes waveforms, if any.

#include "Vtop.h"
#include "verilated.h"
#include "design.h"
#ifdef EDDYLINE_TRACE
#include EDDYLINE_TRACE_HEADER
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

// Verilator ends the process by default, for instance when a combinational loop never settles.
void vl_fatal(const char*, int, const char*, const char* message) {
    throw std::runtime_error(message);
}

namespace {

constexpr unsigned I_WORDS = (I_BITS + 31) / 32;
constexpr unsigned O_WORDS = (O_BITS + 31) / 32;
constexpr uint64_t HALF = 5000;  // half a cycle of `sync`; a picosecond in waveforms
constexpr uint64_t NEVER = std::numeric_limits<uint64_t>::max();

enum Status { DONE, PAUSED, FULL, STUCK, WITHDRAWN, CHANGED, FAILED };

// Verilator keeps ports of up to 64 bits as an integer, wider ones as an array of words.
template <class T> void put(T& port, const uint32_t* words) {
    if constexpr (sizeof(T) == 8) port = words[0] | uint64_t(words[1]) << 32;
    else port = T(words[0]);
}
template <std::size_t N> void put(VlWide<N>& port, const uint32_t* words) {
    std::memcpy(&port[0], words, N * 4);
}
template <class T> void take(const T& port, uint32_t* words) {
    words[0] = uint32_t(port);
    if constexpr (sizeof(T) == 8) words[1] = uint32_t(port >> 32);
}
template <std::size_t N> void take(const VlWide<N>& port, uint32_t* words) {
    std::memcpy(words, &port[0], N * 4);
}

bool bit(const uint32_t* words, int position) {
    return position >= 0 && words[position / 32] >> (position % 32) & 1;
}

// True with a probability of n in 256, from a generator of its own (splitmix64).
struct Chance {
    unsigned n = 0;
    uint64_t state = 0;
    bool operator()() {
        if (!n) return false;
        uint64_t z = state += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return (z >> 56) < n;
    }
};

struct Clock {
    uint64_t half;
    uint64_t edge = 0;
    bool high = false;
};

struct Harness {
    VerilatedContext context;
    std::unique_ptr<Vtop> top;
#ifdef EDDYLINE_TRACE
    std::unique_ptr<EDDYLINE_TRACE> trace;
#endif
    Clock sync{HALF}, merge{HALF};
    uint64_t time = 0, cycles = 0, last_move = 0;
    int64_t owed = 0;  // stars that went in and have not come out
    Chance idle, stall;
    bool offered = false, ready = false;
    bool held = false;  // `o` was offered and not taken at the last edge
    uint32_t held_payload[O_WORDS];
    std::string error;

    // What the call under way reads and writes.
    const uint32_t* input = nullptr;
    uint64_t input_end = 0, input_next = 0;
    uint32_t* output = nullptr;
    uint64_t output_count = 0;
    uint64_t *taken_at = nullptr, *given_at = nullptr;  // cycles of transfers, if anyone asks
    Status broken = DONE;

    Harness(double ratio, const char* trace_path) {
        context.threads(1);
        top = std::make_unique<Vtop>(&context, "TOP");
        merge.half = std::max<uint64_t>(1, uint64_t(HALF / ratio + 0.5));
        if (!HAS_MERGE) merge.edge = NEVER;
#ifdef EDDYLINE_TRACE
        context.traceEverOn(true);
        trace = std::make_unique<EDDYLINE_TRACE>();
        top->trace(trace.get(), 99);
        trace->open(trace_path);
#endif
        top->eval();
    }

    ~Harness() {
        top->final();
#ifdef EDDYLINE_TRACE
        trace->close();
#endif
    }

    // Decide what to offer after this edge, knowing whether the last offer was taken at it.
    void drive_input() {
        if (offered && top->i_ready) {
            if (bit(input + input_next * I_WORDS, I_STAR)) ++owed;
            if (taken_at) taken_at[input_next] = cycles;
            ++input_next;
            offered = false;
            last_move = cycles;
        }
        if (!offered && input_next < input_end && !idle()) {
            offered = true;
            uint32_t words[I_WORDS];
            std::memcpy(words, input + input_next * I_WORDS, sizeof words);
            if constexpr (I_BITS % 32 != 0) words[I_WORDS - 1] &= (1u << I_BITS % 32) - 1;
            put(top->i_payload, words);
        }
        top->i_valid = offered;
    }

    void take_output() {
        const bool valid = top->o_valid;
        if (held && !valid) broken = WITHDRAWN;
        if (valid) {
            uint32_t words[O_WORDS];
            take(top->o_payload, words);
            if (held && std::memcmp(words, held_payload, sizeof words)) broken = CHANGED;
            if (ready) {
                if (given_at) given_at[output_count] = cycles;
                std::memcpy(output + output_count++ * O_WORDS, words, sizeof words);
                if (bit(words, O_STAR)) --owed;
                last_move = cycles;
            } else {
                std::memcpy(held_payload, words, sizeof words);
            }
        }
        held = valid && !ready;
        ready = O_ALWAYS || !stall();
        top->o_ready = ready;
    }

    // Go to the next moment at which a clock changes. Outputs are sampled before an edge.
    template <bool STREAMS> void advance() {
        time = std::min(sync.edge, merge.edge);
        const bool sync_changes = sync.edge == time, merge_changes = merge.edge == time;
        const bool sync_rises = sync_changes && !sync.high;
        const bool merge_rises = merge_changes && !merge.high;
        if (STREAMS) {
            if (O_MERGE ? merge_rises : sync_rises) take_output();
            if (sync_rises) drive_input();
        }
        if (sync_changes) {
            top->clk = sync.high = !sync.high;
            sync.edge += sync.half;
        }
        if (merge_changes) {
            top->merge_clk = merge.high = !merge.high;
            merge.edge += merge.half;
        }
        if (sync_rises) ++cycles;
        top->eval();
#ifdef EDDYLINE_TRACE
        trace->dump(time);
#endif
    }

    // Reset all domains for a few cycles of the slower clock.
    void reset() {
        const uint64_t half = HAS_MERGE ? std::max(sync.half, merge.half) : sync.half;
        offered = held = false;
        ready = O_ALWAYS;
        top->i_valid = top->o_ready = 0;
        for (const int level : {1, 0}) {
            top->next_rst = top->next_merge_rst = level;
            const uint64_t end = time + 16 * half;
            do advance<false>(); while (time < end || sync.high);
        }
        owed = 0;
        cycles = 0;
        last_move = 0;
    }

    Status run(uint64_t room, bool until_star, uint64_t until, uint64_t budget,
               uint64_t patience) {
        const uint64_t pause = budget > NEVER - cycles ? NEVER : cycles + budget;
        while (broken == DONE) {
            if (input_next == input_end && (!until_star || owed <= 0) && cycles >= until)
                return DONE;
            if (output_count == room) return FULL;
            if (cycles - last_move > patience && cycles >= until) return STUCK;
            if (cycles >= pause) return PAUSED;
            advance<true>();
        }
        return broken;
    }
};

template <class F> int guarded(Harness* h, F f) {
    try {
        return f();
    } catch (const std::exception& e) {
        h->error = e.what();
        return FAILED;
    }
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API Harness* eddyline_open(double ratio, const char* trace, char* error, size_t size) {
    try {
        return new Harness(ratio, trace);
    } catch (const std::exception& e) {
        std::strncpy(error, e.what(), size - 1);
        return nullptr;
    }
}
API void eddyline_close(Harness* h) { delete h; }
API const char* eddyline_error(Harness* h) { return h->error.c_str(); }
API uint64_t eddyline_cycles(Harness* h) { return h->cycles; }
API int64_t eddyline_owed(Harness* h) { return h->owed; }
API void eddyline_set(Harness* h, unsigned port, uint64_t value) {
    set_port(*h->top, port, value);
}
API uint64_t eddyline_get(Harness* h, unsigned port) { return get_port(*h->top, port); }
API void eddyline_idle(Harness* h, unsigned n, uint64_t seed) { h->idle = {n, seed}; }
API void eddyline_stall(Harness* h, unsigned n, uint64_t seed) { h->stall = {n, seed}; }
API int eddyline_reset(Harness* h) {
    h->broken = DONE;
    return guarded(h, [&] { h->reset(); return int(DONE); });
}
API void eddyline_begin(Harness* h) { h->last_move = h->cycles; }
// Where the next runs note the cycle of each transfer: as many numbers as payloads, or nowhere.
API void eddyline_stamp(Harness* h, uint64_t* taken_at, uint64_t* given_at) {
    h->taken_at = taken_at;
    h->given_at = given_at;
}
// Run until all input is taken (and no star is owed, and `until` cycles have passed), or the
// output is full, or for `budget` cycles. `next` and `count` are read and updated.
API int eddyline_run(Harness* h, const uint32_t* input, uint64_t* next, uint64_t end,
                     uint32_t* output, uint64_t* count, uint64_t room, int until_star,
                     uint64_t until, uint64_t budget, uint64_t patience) {
    h->input = input;
    h->input_next = *next;
    h->input_end = end;
    h->output = output;
    h->output_count = *count;
    const int status = guarded(h, [&] {
        return int(h->run(room, until_star, until, budget, patience));
    });
    *next = h->input_next;
    *count = h->output_count;
    return status;
}
