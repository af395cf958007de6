"""Bench of the windows of the asynchronous chain: a list of tuples, the oldest of them sent."""

from collections import Counter, deque

import cocotb
from cocotb.triggers import FallingEdge

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters

SLOTS, LANES = parameters()["slots"], parameters()["lanes"]
LATENCY, SKIP_SENT = parameters()["latency"], parameters()["skip_sent"]
COVERAGE = Coverage(
    "no room",
    "wrap-around",
    "all sent",
    "sent during a scan",
    "removed during a scan",
    "paused during a scan",
    "sent and removed at once",
)


class Player:
    """Do at random what the window allows, and compare it with two lists in every cycle."""

    def __init__(self, bench, weights):
        self.bench = bench
        self.weights = weights
        self.sent, self.unsent = deque(), deque()
        self.inserted = 0
        self.room = False  # in the last cycle: a tuple is taken in one and stored in the next
        self.scans = deque()  # what the scans under way have to show
        self.before = (False, False)  # whether a row was read and a scan begun in the last cycle
        self.shown = deque([(False, False)] * (LATENCY - 1))  # whether a row is due, and the last
        self.seen = Counter()

    def wants(self, action):
        return self.bench.random.random() < self.weights[action]

    async def cycle(self, *, quiet=False):
        bench = self.bench
        state = {
            name: bench.get(name)
            for name in ("first", "first_valid", "unsent", "sent", "last_row", "scanning", "room")
        }
        pause = not quiet and self.wants("pause")
        self.check(state)
        insert = self.room and not quiet and self.wants("insert")
        pass_on = bool(state["first_valid"]) and not quiet and self.wants("pass_on")
        remove = bool(self.sent or pass_on) and not quiet and self.wants("remove")
        # A core never stores a tuple in the window that it compares another one with.
        free = bool(state["last_row"]) and not pause and not insert
        scan = free and not quiet and self.wants("scan")
        value = bench.random.getrandbits(8)
        actions = {
            "insert": insert,
            "pass_on": pass_on,
            "remove": remove,
            "scan": scan,
            "pause": pause,
        }
        for name, wanted in actions.items():
            bench.set(name, int(wanted))
        bench.set("entering", value)
        COVERAGE.hit("no room", not state["room"] and self.inserted)
        COVERAGE.hit("sent during a scan", pass_on and state["scanning"])
        COVERAGE.hit("paused during a scan", pause and state["scanning"])
        COVERAGE.hit("removed during a scan", remove and state["scanning"])
        COVERAGE.hit("sent and removed at once", pass_on and remove and not self.sent)

        if scan:
            # What goes on in this very cycle has gone.
            here = [*self.unsent][pass_on:] if SKIP_SENT else [*self.sent, *self.unsent]
            if here:
                self.scans.append(Counter(here))
        if pass_on:
            self.sent.append(self.unsent.popleft())
        if remove:
            self.sent.popleft()
        if insert:
            self.unsent.append(value)
            self.inserted += 1
        # Not two in a row and not during a scan, as in a core.
        self.room = bool(state["room"] and state["last_row"]) and not pause and not insert
        COVERAGE.hit("wrap-around", self.inserted > 2 * SLOTS)
        COVERAGE.hit("all sent", self.sent and not self.unsent)
        self.before = (bool(state["scanning"]) and not pause, scan)
        await bench.cycles(1)
        await FallingEdge(bench.dut.clk)

    def check(self, state):
        assert state["unsent"] == len(self.unsent), f"{state['unsent']} tuples are said to be here"
        assert state["sent"] == len(self.sent), f"{state['sent']} tuples are said to be sent"
        if state["first_valid"]:
            first = self.unsent[0] if self.unsent else None
            assert state["first"] == first, f"{state['first']} is to be sent, not {first}"
        # Rows are shown `latency` cycles later. A row was the last of its scan if nothing follows
        # it, or another scan.
        read, begun = self.before
        self.shown.append((read, read and (begun or not state["scanning"])))
        scanned, last = self.shown.popleft()
        slots = [self.bench.get(f"lanes__{lane}") for lane in range(LANES)]
        row = [slot["entry"] for slot in slots if slot["valid"]]
        assert scanned or not row, f"{row} is shown outside of a scan"
        self.seen.update(row)
        if scanned and last:
            expected = self.scans.popleft() if self.scans else Counter()
            assert self.seen == expected, f"a scan showed {self.seen}, not {expected}"
            self.seen = Counter()


@cocotb.test()
@cocotb.parametrize(
    weights=(
        {"insert": 0.5, "pass_on": 0.5, "remove": 0.5, "scan": 0.5, "pause": 0.2},
        {"insert": 0.9, "pass_on": 0.2, "remove": 0.2, "scan": 0.3, "pause": 0},
        {"insert": 0.3, "pass_on": 0.9, "remove": 0.1, "scan": 0.3, "pause": 0.5},
        {"insert": 0.9, "pass_on": 1.0, "remove": 1.0, "scan": 0.1, "pause": 0.1},
    )
)
async def it_holds_what_was_not_acknowledged(dut, weights):
    bench = Bench(dut)
    for name in ("insert", "pass_on", "remove", "scan", "pause", "entering"):
        bench.set(name, 0)
    await bench.start()
    await FallingEdge(dut.clk)
    player = Player(bench, weights)
    for _ in range(600):
        await player.cycle()
    for _ in range(2 * SLOTS + LATENCY + 2):
        await player.cycle(quiet=True)
    assert not player.scans, "a scan showed nothing"


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
