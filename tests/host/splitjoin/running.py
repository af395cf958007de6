"""Runs of the simulated SplitJoin device, and what they are compared with."""

import numpy as np

from eddyline.device import Tuples, joined
from eddyline.device.reference import ReferenceDevice
from eddyline.plan import Compare, Layout, Order, Plan, Window, Word

CORES = 3
WORD = Layout((Word("w0", 8, False, "x"),), ())
ORDERS = [
    Order("none"),
    *(Order(kind, every) for kind in ("outer", "inner") for every in (0, 1, 3, 7)),
    Order("inner", 6),
    Order("inner", 1 << 20),
]


def plan(window_r=6, window_s=6, order=ORDERS[0]):
    windows = Window("rows", window_r), Window("rows", window_s)
    return Plan(WORD, WORD, Compare(0, "eq", 0), *windows, order, False)


def tuples(arrivals, *, first=(0, 0)):
    """Return tuples of ``(side, value)``, with ids that count each side's from ``first`` on."""
    sides = np.array([side for side, _ in arrivals], np.uint8)
    records = []
    for number in (0, 1):
        values = [value for side, value in arrivals if side == number]
        one = np.zeros(len(values), np.dtype(WORD.fields))
        one["id"], one["valid"], one["w0"] = first[number] + np.arange(len(values)), 1, values
        records.append(one)
    return Tuples(sides, *records)


def alternating(count, values=3):
    return [(i % 2, i // 2 % values) for i in range(count)]


def pulled(device, parts):
    while not (results := device.pull()).nothing:
        parts.append(results)
    return results


def run(device, arrivals, pieces=1 << 16):
    """Push pieces and pull behind each of them; return all results."""
    parts, first = [], [0, 0]
    for begin in range(0, len(arrivals), pieces):
        piece = arrivals[begin : begin + pieces]
        device.push(tuples(piece, first=first))
        for side, _ in piece:
            first[side] += 1
        assert pulled(device, parts).closed % max(len(arrivals), 1) in (0, begin + len(piece))
    parts.append(device.flush())
    return joined(parts, parts[-1].closed)


def pairs_of(results):
    return list(zip(results.r_id.tolist(), results.s_id.tolist(), strict=True))


def groups_of(results):
    cuts = [0, *results.stars.tolist()]
    pairs = pairs_of(results)
    return [sorted(pairs[a:b]) for a, b in zip(cuts, cuts[1:], strict=False)]


def check(found, right, order):
    """Compare with the reference as exactly as the order promises."""
    assert sorted(pairs_of(found)) == sorted(pairs_of(right))
    assert found.closed == right.closed
    if order.kind != "none":
        assert found.stars.tolist() == right.stars.tolist()
        assert groups_of(found) == groups_of(right)
    if order.kind == "inner":
        assert pairs_of(found) == pairs_of(right)


def right_results(wanted, arrivals):
    with ReferenceDevice() as reference:
        reference.configure(wanted)
        return run(reference, arrivals)
