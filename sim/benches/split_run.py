"""A SplitJoin operator under way, for its benches: what it was sent, and what came."""

from sim.benches.environment import Bench, parameters
from sim.benches.parts import PartedTraffic, Parts

__all__ = ["CORES", "HUNG", "ORDERS", "SETTINGS", "STALLS", "Run", "in_sequence", "warm"]

CORES, STALLS, HUNG = (parameters()[name] for name in ("cores", "stalls", "hung"))
SETTINGS = parameters()["settings"]  # for some sizes of the windows, the largest first
ORDERS = parameters()["orders"]  # name of the precision, interval, values of the settings
DEAD = 4000 if STALLS else 1500  # cycles in which nothing moves; the longest stall has 400


class Run:
    """An operator under way.

    Parameters
    ----------
    dut
        cocotb's handle of the operator.
    order, setting
        Of :data:`ORDERS` and :data:`SETTINGS`.
    idle, stall : str
        Patterns of input and outputs.
    coverage : Coverage
        Of the points that a run can see, it counts those that are in there.

    Members
    -------
    bench, traffic
        Around the operator, and what it is sent.
    parts : dict
        What came, by output.
    """

    def __init__(self, dut, *, order, setting=SETTINGS[0], idle="never", stall="never", coverage):
        self.bench = Bench(dut, idle=idle, stall=stall)
        self.coverage = coverage
        self.traffic = PartedTraffic(
            parameters()["plan"], cores=CORES, rows=setting["rows"], order=tuple(order[:2])
        )
        self.traffic.off |= set(HUNG)
        self.sent, self.exact = 0, set()
        self._cut = {}  # core to the messages before which, and by which, it went off
        self.set(order[2] | setting["values"] | {"adaptive": 0, "selected": 0})
        self.set({"disabled": sum(1 << core for core in HUNG)})

    def set(self, values):
        for name, value in values.items():
            self.bench.set(name, value)

    def cover(self, point, when=True):
        if point in self.coverage.hits:
            self.coverage.hit(point, when)

    async def start(self):
        await self.bench.start()
        self.parts = {name: Parts(self.bench.monitors[name]) for name in self.bench.sinks}
        self.bench.watch(self._watch)
        await self.bench.cycles(8)  # settings go through registers

    def _watch(self):
        for name in self.parts:
            output = self.bench.monitors[name]
            if output.stalled:
                payload = self.bench.ports[name].payload.decode(output.sample()[2])
                self.cover("stalled star", payload["star"])

    async def change(self, *, order=None, setting=None, disabled=()):
        """Change settings behind a star that was answered."""
        if order:
            self.cover("order changes", self.traffic.order != tuple(order[:2]))
            self.traffic.order = tuple(order[:2])
            self.set(order[2])
        if setting:
            self.traffic.rows = setting["rows"]
            self.set(setting["values"])
        if disabled:
            self.traffic.off |= set(disabled)
            self.set({"disabled": sum(1 << core for core in self.traffic.off)})
            self.cover("core switched off")
        await self.bench.cycles(8)

    @property
    def answers(self):
        """How many messages were answered, at all outputs."""
        return min(parts.answers for parts in self.parts.values())

    def send(self, *, exact=False):
        """Send what is new in the traffic; with ``exact`` its pairs have to come in order."""
        if exact:
            seen = sum(len(parts.stars) for parts in self.parts.values())
            self.exact |= set(range(seen, len(self.traffic.parts)))
        self.bench.send("i", self.traffic.messages[self.sent :])
        self.sent = len(self.traffic.messages)

    async def answered(self, *, exact=False):
        """Send what is new in the traffic, of which the last is a star, and wait for it."""
        fresh = len(self.traffic.messages) - self.sent
        self.send(exact=exact)
        await self.settled(fresh)

    async def settled(self, fresh):
        """Wait until all stars that were sent are answered, ``fresh`` messages among them."""
        traffic = self.traffic
        answers = sum(message["star"] for message in traffic.messages)
        items = sum(len(pairs) + 1 for pairs, _ in traffic.parts[self.answers :])
        monitors = self.bench.monitors.values()
        moves, since = 0, self.bench.cycle

        def done():
            nonlocal moves, since
            now = sum(one.count for one in monitors)
            if now != moves:
                moves, since = now, self.bench.cycle
            still = self.bench.cycle - since
            assert still < DEAD, f"answer {answers} did not come: nothing moves for {still} cycles"
            return self.answers == answers

        await self.bench.until(
            done,
            # A packet waits for room in all cores at once: where they stall, up to 2300 cycles.
            limit=(2000 + 40 * (fresh + items)) * (1 + 3 * STALLS),
            what=f"answer {answers}",
        )
        for rows in traffic.rows.values():
            self.cover("window smaller than the cores", rows < CORES)
            self.cover("window that cores do not divide", rows > CORES and rows % CORES)
        self.cover("window wraps around", traffic.forgotten)

    def cut_off(self, core):
        """Switch a core off at once.

        Since the last answer it has to be doubtful, and behind the next one it is off.
        """
        taken = self.bench.monitors["i"].count  # these it may have kept
        self._cut[core] = self._under_way(taken), taken
        cores = {*self.traffic.off, *self._cut}
        self.set({"disabled": sum(1 << core for core in cores)})
        self.cover("core cut off")

    def _under_way(self, taken):
        """Return the first message that may not have been at the cores: all are, once answered."""
        answered = [n for n, turn in enumerate(self.traffic.turns[:taken]) if turn is None]
        return answered[: self.answers][-1] if self.answers else 0

    async def finish(self):
        """See that what came is right."""
        await self.bench.cycles(30)
        traffic = self.traffic
        if len(self.parts) == 1:
            (parts,) = self.parts.values()
            parts.check(traffic.parts, exact=self.exact, optional=traffic.optional)
        else:
            for name, parts in self.parts.items():
                right = traffic.streams[name[-1]]
                parts.check(right, exact=range(len(right)) if self.exact else ())
        assert not self.bench.get("overflow"), "something was overwritten or lost"
        await self._check_counters()
        self.cover("input waits", self.bench.get("waited"))
        self.cover("star behind no pair", not all(pairs for pairs, _ in traffic.parts))

    async def _check_counters(self):
        for core in range(CORES):
            self.bench.set("selected", core)
            await self.bench.cycles(8)
            for side in "rs":
                name = f"unstored_{side}"
                least, most = self._unstored(side, core)
                got = self.bench.get(name)
                right = str(least) if least == most else f"{least} to {most}"
                assert least <= got <= most, f"{name} of core {core} is {got}, not {right}"
            if core in HUNG or core in self._cut:
                continue
            got, right = self.bench.get("comparisons"), self.traffic.compared[core]
            assert got == right, f"comparisons of core {core} is {got}, not {right}"

    def _unstored(self, side, core):
        """Return how many tuples a core should have kept while it was off: at least, at most."""
        if core not in self._cut:
            return [self.traffic.unstored[side, core]] * 2
        return [
            self.traffic.turns[start:].count((side, core)) for start in reversed(self._cut[core])
        ]


def in_sequence(order):
    return tuple(order[:2]) == ("INNER", 1)


def warm(traffic, r, s):
    """Fill both windows, so that every scan is a whole one."""
    for _ in range(traffic.rows["r"] + CORES):
        traffic.tuple("r", r)
    for _ in range(traffic.rows["s"] + CORES):
        traffic.tuple("s", s)
