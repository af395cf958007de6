"""What is measured of SplitJoin, as rows of numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from eddyline.cli.bench.fast_forward import LINK, MONITOR, FastForward
from eddyline.cli.bench.rig import VALUES, ChainRig, Shape, SplitRig
from eddyline.cli.bench.steps import Steps
from eddyline.errors import DeviceError, QueryError
from eddyline_hw.splitjoin.precision import Precision

__all__ = ["OTHERS", "Sizes", "disagreements", "duty", "formula", "measure"]

Row = dict[str, Any]

FEW, MANY = 16, 64  # slots per core in most measurements, and against precision
WHOLE = 1 << 10  # an inner interval so long that only the final star is left
ALONE, SATURATED = 32, 1000  # tuples of which stages are measured
PATTERNS = {"alternating": "rs", "bursty": "rrrrrrrssss", "one-sided": "r"}
RATES = (0, 8, 16, 24, 28, 32, 36, 40, 48, 64, 128, 256)  # of VALUES pairs match
ORDERS = {  # precision, and interval of stars
    "none": (Precision.NONE, 1),
    "outer:1": (Precision.OUTER, 1),
    "inner": (Precision.INNER, WHOLE),
    "inner:1": (Precision.INNER, 1),
}
GROUPS = (1, 4, 16, 64)  # arrivals that one star closes
BUSY = 1000  # tuples during which the comparators are watched
# Tuples between which the interval is measured; where results are the limit, cores that are ahead
# wait for the others at the end, which must not count for much.
COUNTED, MATCHED = 256, 2048
# Other trees and comparators: each two of b, c and P meet in all ways, with 2, 4, 8 and 1, 2, 4.
OTHERS = (
    Shape(3, 2, 8, lanes=4),
    Shape(5, 8, 2, lanes=4),
    Shape(6, 4, 4, lanes=4),
    Shape(7, 2, 4, lanes=2),
    Shape(9, 4, 2, lanes=2),
    Shape(10, 8, 8, lanes=2),
    Shape(11, 2, 2),
    Shape(13, 4, 8),
    Shape(15, 8, 4),
)
LARGE = (Shape(64, 2, 8), Shape(64, 8, 2))
WIDE = Shape(2, lanes=4)  # several comparators at full load


@dataclass(frozen=True)
class Sizes:
    """How much is measured: cores, other shapes for the formula, and the shape for throughput."""

    cores: tuple[int, ...] = (1, 2, 4, 8)
    others: tuple[Shape, ...] = OTHERS[:2]

    @classmethod
    def chosen(cls, *, full: bool, cores: str | None) -> Self:
        if full:
            return cls((1, 2, 4, 8, 16, 32, 64), OTHERS + LARGE)
        if cores is None:
            return cls()
        try:
            numbers = tuple(sorted({int(one) for one in cores.split(",")}))
        except ValueError:
            numbers = ()
        if not numbers or not all(1 <= one <= 64 for one in numbers):
            raise QueryError(f"--cores takes numbers from 1 to 64 such as 1,2,4, not {cores!r}")
        return cls(numbers, ())

    @property
    def throughput(self) -> Shape:
        cores = max(one for one in self.cores if one <= 8 or one == min(self.cores))
        return Shape(cores, slots=MANY)

    @property
    def rows(self) -> tuple[Shape, ...]:
        """Shapes of which everything is measured."""
        wide = self.throughput
        return tuple(wide if wide.cores == cores else Shape(cores) for cores in self.cores)


def measure(sizes: Sizes, steps: Steps) -> dict[str, Any]:
    """Measure everything; each table is a list of rows."""
    results: dict[str, Any] = {
        "sizes": {"cores": list(sizes.cores), "slots": FEW, "link": LINK, "monitor": MONITOR},
        "formula": [],
        "latency": [],
        "stages": [],
    }
    shapes = [*sizes.rows, *sizes.others]
    steps.expect(len(shapes) + len(sizes.cores) + 4)
    for shape in shapes:
        steps.begin(f"splitjoin, {shape}")
        with SplitRig(shape, steps) as rig:
            promised = formula(rig)
            results["formula"] += promised
            if shape not in sizes.rows:
                continue
            model = FastForward(
                cores=shape.cores,
                rows=rig.operator.rows("s", FEW * shape.cores),
                around=rig.around,
                collect=rig.operator.merge["r"].latency,
            )
            results["latency"].append(
                {
                    "cores": shape.cores,
                    "splitjoin": promised[0]["measured"],
                    "fast_forward_model": model.run([(0, "r")]).processing[0],
                }
            )
            for load in ("alone", "saturated"):
                results["stages"].append(_stages(rig, model, load))
            if shape == sizes.throughput:
                results |= _throughput(rig, steps)
    for row, cores in zip(results["latency"], sizes.cores, strict=True):
        steps.begin(f"lock-step handshake chain, k = {cores}")
        with ChainRig(Shape(cores), FEW, steps) as chain:
            row["handshake_lockstep"], row["handshake_visiting"] = chain.completion()
    steps.begin(f"splitjoin, {WIDE}")
    with SplitRig(WIDE, steps) as rig:
        results["matches"] += _matches(rig, "none")
        results["duty"] += duty(
            rig, ((FEW, "outer:1"), (WIDE.lanes, "outer:1"), (FEW, "inner"), (FEW, "inner:1"))
        )
    return results


def disagreements(results: dict[str, Any]) -> list[str]:
    """Say where the latency measured is not the one promised."""
    return [
        f"k = {row['cores']}, b = {row['fan_out']}, c = {row['fan_in']}, P = {row['lanes']}, "
        f"{row['slots']} slots, {row['order']}: {row['measured']} cycles, not {row['promised']}"
        for row in results["formula"]
        if row["measured"] != row["promised"] or row["least"] != row["promised"]
    ]


def formula(rig: SplitRig) -> list[Row]:
    """Compare the latency of tuples that are alone with the operator's formula."""
    rows = []
    for slots in sorted({FEW, rig.shape.slots}):
        for name in ("outer:1", "inner", "inner:1"):
            order = _order(name)
            rig.configure(slots, *ORDERS[name])
            rig.fill()
            times = [_alone(rig, side) for side in "rsrrs"]
            rows.append(
                {
                    "cores": rig.shape.cores,
                    "fan_out": rig.shape.fan_out,
                    "fan_in": rig.shape.fan_in,
                    "lanes": rig.shape.lanes,
                    "slots": slots,
                    "order": name,
                    "distribution": rig.operator.tree.latency,
                    "rows": rig.operator.rows("s", rig.window, **order),
                    "stages": rig.operator.stages,
                    "gathering": rig.operator.merge["r"].latency,
                    "promised": rig.operator.latency("s", rig.window, **order),
                    "measured": max(times),
                    "least": min(times),
                }
            )
    return rows


def _order(name: str) -> dict[str, bool]:
    """Return what the operator's formulas ask of an order."""
    return {"inner": name.startswith("inner"), "strict": name == "inner:1"}


def _alone(rig: SplitRig, side: str) -> int:
    """Return the cycles from a tuple's entry to its last star, with nothing else under way."""
    out, taken, given = rig.send(rig.stream.messages(side))
    final = np.flatnonzero(rig.field(out, "final"))
    if final.tolist() != [len(out) - 1] or not rig.field(out, "star").all():
        raise AssertionError(f"a tuple without pairs gave {len(out)} items, and stars {final}")
    return int(given[-1] - taken[0])


def _stages(rig: SplitRig, model: FastForward, load: str) -> Row:
    """Return the mean cycles of each stage; with the model's beside them."""
    rig.configure(FEW, Precision.OUTER)
    rig.fill()
    before = rig.sums()
    if load == "alone":
        for number in range(ALONE):
            rig.send(rig.stream.messages("rs"[number % 2]))
        modelled = model.run([(0, "r")])
    else:
        _, taken, _ = rig.send(rig.stream.messages("rs" * (SATURATED // 2)))
        arrivals = [(int(cycle - taken[0]), "rs"[n % 2]) for n, cycle in enumerate(taken)]
        modelled = model.run(arrivals)
    after = rig.sums()

    def mean(place: str) -> float:
        return (after[f"{place}_sum"] - before[f"{place}_sum"]) / (after[place] - before[place])

    core = rig.operator.core[0]
    visiting = mean("compared") - mean("entered")
    if load == "alone":
        # What lies before the comparators costs the model as much: all but the tree and the scan.
        scan = rig.operator.rows("s", rig.window)
        model.before = visiting - rig.operator.tree.latency - (scan - 1) / 2
    compared = mean("ended") + core.regions["r"].latency + core.matcher.latency
    return {
        "cores": rig.shape.cores,
        "load": load,
        "distribution": mean("begun") - mean("entered"),
        "execution": compared - mean("begun"),
        "gathering": mean("left") - compared,
        "processing": mean("left") - mean("entered"),
        "visiting": visiting,
        "model_processing": float(np.mean(modelled.processing)),
        "model_visiting": model.before + modelled.visiting,
    }


@dataclass(frozen=True)
class _Interval:
    """What came between two answers, per tuple."""

    cycles: float
    pairs: float
    items: float  # pairs and stars


def _interval(rig: SplitRig, matching: int, counted: int) -> _Interval:
    """Measure at saturation, with full windows.

    From answer to answer of two stars among the tuples: the input itself takes tuples in bursts.
    """
    before, watched = "rs" * (rig.window + 64), "rs" * (counted // 2)
    messages = [
        part
        for sides in (before, watched)
        for part in (rig.stream.messages(sides, matching), rig.stream.star())
    ]
    sent = np.concatenate(messages)
    out, _, given = rig.send(sent, answers=2)
    pairs = rig.field(out, "star") == 0
    _check_complete(rig, sent, int(pairs.sum()))
    begin, end = np.flatnonzero(rig.field(out, "sync"))
    # The second answer has a cycle of its own.
    cycles, items = int(given[end] - given[begin]) - 1, int(end - begin) - 1
    within = int(pairs[begin:end].sum())
    return _Interval(cycles / counted, within / counted, items / counted)


def _check_complete(rig: SplitRig, sent: np.ndarray, pairs: int) -> None:
    """See that no pair was lost on the way, or came twice."""
    if rig.simulation.get("overflow"):
        raise DeviceError(f"{rig.shape}: a queue of hits ran over, pairs are missing")
    sides, x, low, high = rig.stream.values(sent)
    expected = r = s = 0
    for side in sides.tolist():
        if side:
            some = x[max(0, r - rig.window) : r]
            expected += int(((low[s] <= some) & (some <= high[s])).sum())
            s += 1
        else:
            stored = slice(max(0, s - rig.window), s)
            expected += int(((low[stored] <= x[r]) & (x[r] <= high[stored])).sum())
            r += 1
    if pairs != expected:
        raise DeviceError(f"{rig.shape}: {pairs} pairs, not {expected}")


def _throughput(rig: SplitRig, steps: Steps) -> dict[str, Any]:
    results: dict[str, Any] = {"throughput": {"cores": rig.shape.cores}}
    steps.begin("throughput against precision")
    results["precision"] = _precision(rig)
    steps.begin("throughput against match rate")
    results["matches"] = _matches(rig, "none") + _matches(rig, "outer:1")
    steps.begin("comparators")
    cases = ((FEW, "outer:1"), (FEW, "inner"), (1, "none"), (1, "outer:1"))
    results["duty"] = duty(rig, cases)
    return results


def _precision(rig: SplitRig) -> list[Row]:
    """Return cycles per tuple for every order, with about two pairs per tuple."""
    slots = rig.shape.slots
    cases = [("none", Precision.NONE, 1)]
    cases += [(f"outer:{n}", Precision.OUTER, n) for n in reversed(GROUPS)]
    length = 2 * slots
    while length:
        cases.append((f"inner:{length}", Precision.INNER, length))
        length //= 2
    rows = []
    for name, mode, every in cases:
        rig.configure(slots, mode, every)
        found = _interval(rig, max(1, 2 * VALUES // rig.window), COUNTED)
        rows.append(
            {
                "order": name,
                "every": every,
                "scan": rig.operator.rows("s", rig.window, inner=mode is Precision.INNER),
                "items": found.items,
                "cycles_per_tuple": found.cycles,
            }
        )
    return rows


def _matches(rig: SplitRig, order: str) -> list[Row]:
    """Return cycles per tuple against the share of pairs that match."""
    rows = []
    for matching in RATES:
        rig.configure(FEW, *ORDERS[order])
        found = _interval(rig, matching, MATCHED)
        scan = rig.operator.rows("s", rig.window)
        rows.append(
            {
                "cores": rig.shape.cores,
                "lanes": rig.shape.lanes,
                "order": order,
                "matching": matching / VALUES,
                "match_rate": found.pairs / rig.window,
                "cycles_per_tuple": found.cycles,
                "results_per_cycle": found.pairs / found.cycles,
                "bound": max(scan, found.items),
            }
        )
    return rows


def duty(rig: SplitRig, cases: Iterable[tuple[int, str]]) -> list[Row]:
    """Return how busy comparators are at saturation, on the core where they are least so.

    ``cases`` are slots per core and orders.
    """
    rows = []
    for slots, order in cases:
        for name, pattern in PATTERNS.items():
            rig.configure(slots, *ORDERS[order])
            rig.fill()
            sides = (pattern * BUSY)[:BUSY]
            rig.simulation.run(rig.stream.messages(sides), until_star=False)
            shares = [_busy(rig, core, sides) for core in range(rig.shape.cores)]
            busy, comparing = (min(column) for column in zip(*shares, strict=True))
            rows.append(
                {
                    "cores": rig.shape.cores,
                    "lanes": rig.shape.lanes,
                    "input": name,
                    "order": order,
                    "scan": rig.operator.rows("s", rig.window, **_order(order)),
                    "busy": busy,
                    "comparing": comparing,
                }
            )
    return rows


def _busy(rig: SplitRig, core: int, sides: str) -> tuple[float, float]:
    """Return the share of cycles with a row, and that of pairs compared, without a pause."""
    names = ("busy", "comparisons", "cycles")
    rig.simulation.set("selected", core)
    # The setting and the counters pass registers.
    rig.simulation.run(rig.stream.messages(sides[:16]), until_star=False)
    before = [rig.simulation.get(name) for name in names]
    rig.simulation.run(rig.stream.messages(sides), until_star=False)
    busy, comparisons, cycles = (
        rig.simulation.get(name) - value for name, value in zip(names, before, strict=True)
    )
    return busy / cycles, comparisons / cycles / rig.shape.lanes
