"""Bench of steered mergers and trees: stars say in which order, and whoever is off is ignored."""

import cocotb

from sim.benches.coverage import Coverage
from sim.benches.environment import Bench, parameters
from sim.benches.patterns import IDLE, STALL

WAYS, LEVELS = parameters()["ways"], parameters()["levels"]
ALL = (1 << WAYS) - 1
COVERAGE = Coverage(
    "round in sequence",
    "round in any order",
    "round without a payload",
    "payload waits for its turn",
    "first input off",
    "payload swallowed",
    "stalled star",
)


class Traffic:
    """Numbered payloads of each input, and the rounds that have to come."""

    def __init__(self, random):
        self.random = random
        self.sent = [[] for _ in range(WAYS)]
        self.rounds = []
        self._numbers = [0] * WAYS
        self._ordered = False

    def _payload(self, way, **fields):
        self._numbers[way] += 1
        return {"star": 0, "ordered": 0, "way": way, "number": self._numbers[way] % 256} | fields

    def round(self, enabled, *, sizes=(0, 0, 1, 2, 5, 9), ordered=None):
        """Let every input send some payloads and a star; those that are off send garbage."""
        ways = [way for way in range(WAYS) if enabled >> way & 1]
        queues = [[self._payload(way) for _ in range(self.random.choice(sizes))] for way in ways]
        ahead = self.random.random() < 0.6 if ordered is None else ordered
        for way in range(WAYS):
            if way not in ways:
                star = self.random.randrange(2)
                self.sent[way].append(self._payload(way, star=star, ordered=1 - ahead))
        stars = [self._payload(way, star=1, ordered=int(ahead)) for way in ways]
        for way, queue, star in zip(ways, queues, stars, strict=True):
            self.sent[way] += [*queue, star]
        COVERAGE.hit(
            "round in sequence" if self._ordered else "round in any order", sum(queues, [])
        )
        COVERAGE.hit("round without a payload", not sum(queues, []))
        COVERAGE.hit("first input off", 0 not in ways)
        expected = [sum(queues, [])] if self._ordered else queues
        self.rounds.append((expected, stars[0]))
        self._ordered = ahead

    def take(self):
        """Return what is new: by input, and the rounds."""
        fresh = self.sent, self.rounds
        self.sent, self.rounds = [[] for _ in range(WAYS)], []
        return fresh


def cover(bench):
    def watch():
        shown = [bench.monitors[f"i__{way}"].sample() for way in range(WAYS)]
        enabled = bench.get("enabled")
        output = bench.monitors["o"]
        decode = bench.ports["o"].payload.decode
        plain = [valid and not decode(bits)["star"] for valid, _, bits in shown]
        waits = [mine and not ready for mine, (_, ready, _) in zip(plain, shown, strict=True)]
        COVERAGE.hit("payload waits for its turn", any(waits) and not output.stalled)
        for way, (valid, ready, _) in enumerate(shown):
            COVERAGE.hit("payload swallowed", valid and ready and not enabled >> way & 1)
        if output.stalled:
            COVERAGE.hit("stalled star", decode(output.sample()[2])["star"])

    bench.watch(watch)


async def start(dut, *, enabled=ALL, idle="never", stall="never"):
    bench = Bench(dut, idle=idle, stall=stall)
    bench.set("enabled", enabled)
    await bench.start()
    await bench.cycles(2)  # the mask goes through registers
    cover(bench)
    return bench


async def play(bench, sent):
    for way, payloads in enumerate(sent):
        bench.send(f"i__{way}", payloads)
    total = sum(map(len, sent))
    await bench.until(lambda: not bench.scoreboard.remaining, limit=60 * total + 200)


@cocotb.test()
@cocotb.parametrize(idle=IDLE, stall=STALL)
async def rounds_come_in_the_order_that_stars_ask_for(dut, idle, stall):
    bench = await start(dut, idle=idle, stall=stall)
    traffic = Traffic(bench.random)
    for _ in range(12):
        traffic.round(ALL)
    sent, rounds = traffic.take()
    bench.scoreboard.add_rounds(bench.monitors["o"], rounds)
    await play(bench, sent)
    await bench.finish(limit=10)


@cocotb.test()
@cocotb.parametrize(stall=STALL)
async def inputs_that_are_off_are_swallowed(dut, stall):
    """They go off one after the other, between rounds."""
    bench = Bench(dut)
    order = bench.random.sample(range(WAYS), WAYS)
    traffic, enabled, phases = Traffic(bench.random), ALL, []
    for way in order:
        for _ in range(4):
            traffic.round(enabled)
        phases.append((enabled, *traffic.take()))
        enabled &= ~(1 << way)
    bench = await start(dut, idle="random", stall=stall)
    bench.scoreboard.add_rounds(bench.monitors["o"], sum((one[2] for one in phases), []))
    for number, (enabled, sent, _) in enumerate(phases):
        bench.set("enabled", enabled)
        await bench.cycles(3)
        for way, payloads in enumerate(sent):
            bench.send(f"i__{way}", payloads)
        left = sum(
            sum(map(len, queues)) + 1 for _, _, rest in phases[number + 1 :] for queues, _ in rest
        )
        await bench.until(lambda left=left: bench.scoreboard.remaining == left, limit=4000)
        # Whoever is off has sent all its garbage before the next one follows.
        await bench.until(
            lambda: not any(bench.monitors[f"i__{way}"].sample()[0] for way in range(WAYS)),
            limit=400,
            what="an idle input",
        )
        await bench.cycles(40)
    await bench.finish(limit=10)


@cocotb.test()
@cocotb.parametrize(ordered=(False, True))
async def busy_inputs_fill_every_cycle(dut, ordered):
    """In sequence, a cycle is lost where an input's turn begins, and on the way through a tree."""
    bench = await start(dut)
    traffic = Traffic(bench.random)
    traffic.round(ALL, sizes=(0,), ordered=ordered)
    traffic.round(ALL, sizes=(20,), ordered=False)
    sent, rounds = traffic.take()
    bench.scoreboard.add_rounds(bench.monitors["o"], rounds)
    cycles = []
    bench.monitors["o"].add_callback(lambda item: item["star"] or cycles.append(bench.cycle))
    await play(bench, sent)
    await bench.finish(limit=10)
    took = cycles[-1] - cycles[0] + 1
    allowed = len(cycles) + (WAYS - 1 + LEVELS - 1) * ordered
    assert took <= allowed, f"{len(cycles)} payloads took {took} cycles, more than {allowed}"


@cocotb.test()
async def corner_cases_were_met(dut):
    COVERAGE.check()
