"""Every device, the same joins, the same results. A new device only has to be registered."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from eddyline import dictionary, reference
from eddyline.device import Tuples, cpu
from eddyline.device.cpu import CpuDevice
from eddyline.device.discovery import DEVICES, open_device
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.engine import nested_join
from eddyline.engine.access import access_paths
from eddyline.engine.choice import choose
from eddyline.engine.manager import Crew, ManagedJoin
from eddyline.plan import Order
from eddyline.query.window import rows, time
from tests.conformance.cases import PREDICATES, Case, cases
from tests.conformance.check import Refused, check, run

TAKES_EVERYTHING = ("cpu", "reference")
# Every predicate is another circuit: compiling all of them takes minutes.
GATEWARE = {
    "lockstep": "sim:handshake?cores=3&window=48&comparators=2",
    "asynchronous": "sim:handshake?cores=3&window=48&comparators=2&chain=asynchronous",
    "splitjoin": "sim:splitjoin?cores=3&window=48&comparators=2",
}
SOFTWARE = [name for name in DEVICES if not name.startswith("sim:")]
# Every structure, forced; where it cannot serve a predicate, it says so.
STRUCTURES = [
    f"cpu?engine={name}" for name in ("nested", "sorted", "bisort", "rap", "wib", "hash", "grid")
]
# What they may refuse: predicates that no index serves, and what another kind of index does.
BANDS = {"strict", "band", "band of the other side", "two-dimensional band", "float distance"}
EQUALITIES = {"equality", "text", "two texts", "not text"}
UNSERVED = {"one-sided", "always", "never"}
REFUSES = dict.fromkeys(("bisort", "rap", "wib"), UNSERVED) | {
    "nested": set(),
    "sorted": UNSERVED | {"inequality", "either"},
    "hash": set(PREDICATES) - EQUALITIES,
    "grid": set(PREDICATES) - BANDS,
}
# Worker processes, in both ways of sharing the work.
WORKERS = ["cpu?workers=2", "cpu?workers=3&sharing=tuples"]


def _alike(case: Case) -> bool:
    """Say whether both windows are of time, or none: each mixture is another circuit."""
    return len({window.kind == "time" for window in case.windows}) == 1


@pytest.fixture(autouse=True, scope="module")
def strings_are_forgotten_early():
    """Let codes be reused within the few rows of a case."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dictionary, "FIRST_CHECK", 2)
        yield


@pytest.mark.parametrize("device", SOFTWARE)
@pytest.mark.parametrize("predicate", PREDICATES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_device_gives_what_the_definition_gives(device, predicate, data):
    check_unless_refused(device, data.draw(cases(PREDICATES[predicate])))


@pytest.mark.parametrize("device", STRUCTURES)
@pytest.mark.parametrize("predicate", PREDICATES)
@settings(max_examples=12)
@given(data=st.data())
def test_every_structure_gives_what_the_definition_gives(device, predicate, data):
    check_unless_refused(device, data.draw(cases(PREDICATES[predicate])))


@pytest.fixture
def restless(monkeypatch):
    """Let the cpu device begin with BI-Sort wherever that serves, and always move on."""
    kinds = itertools.cycle(["rap", "wib", "bisort"])
    monkeypatch.setattr(cpu, "RECONSIDER", 1)
    monkeypatch.setattr(
        cpu, "choose", lambda plan, _: choose(plan, "bisort" if access_paths(plan) else "auto")
    )
    monkeypatch.setattr(cpu, "follow", lambda seen: (next(kinds), "on a whim"))


@pytest.mark.parametrize("predicate", PREDICATES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), batch=st.sampled_from([1, 2, 3]))
def test_a_structure_may_follow_another_at_any_time(restless, predicate, data, batch):
    case = replace(data.draw(cases(PREDICATES[predicate])), batch=batch)
    subwindows = data.draw(st.sampled_from(["", "&subwindows=1", "&subwindows=64"]))
    check_unless_refused(f"cpu?threads=1{subwindows}", case)


@pytest.fixture(scope="module")
def lasting_workers():
    """Let joins that follow each other have the same processes: starting some takes longer."""
    crews: dict[int, Crew] = {}

    def hire(plan, *, workers, **options):
        if workers not in crews:
            crews[workers] = Crew(workers)
        return ManagedJoin(plan, crew=crews[workers], **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eddyline.engine.manager.ManagedJoin", hire)
        yield
    for crew in crews.values():
        crew.close()


@pytest.mark.parametrize("device", WORKERS)
@pytest.mark.parametrize("predicate", PREDICATES)
@settings(max_examples=6)
@given(data=st.data())
def test_workers_give_what_the_definition_gives(lasting_workers, device, predicate, data):
    check_unless_refused(device, data.draw(cases(PREDICATES[predicate])))


@pytest.mark.slow
@pytest.mark.parametrize("device", WORKERS)
@settings(max_examples=2000)
@given(data=st.data())
def test_workers_give_what_the_definition_gives_thoroughly(lasting_workers, device, data):
    on = data.draw(st.sampled_from(list(PREDICATES.values())))
    check_unless_refused(device, data.draw(cases(on)))


@pytest.mark.slow
@pytest.mark.parametrize("device", [*SOFTWARE, *STRUCTURES, "cpu?subwindows=5&threads=2"])
@settings(max_examples=3000)
@given(data=st.data())
def test_a_device_gives_what_the_definition_gives_thoroughly(device, data):
    on = data.draw(st.sampled_from(list(PREDICATES.values())))
    check_unless_refused(device, data.draw(cases(on)))


@pytest.mark.parametrize("device", GATEWARE)
@settings(max_examples=60)
@given(case=cases(PREDICATES["nested"]).filter(_alike))
def test_gateware_gives_what_the_definition_gives(device, case):
    check_unless_refused(GATEWARE[device], case)


@pytest.mark.slow
@pytest.mark.parametrize("device", GATEWARE)
@pytest.mark.parametrize("predicate", PREDICATES)
@settings(max_examples=100)
@given(data=st.data())
def test_gateware_gives_what_the_definition_gives_thoroughly(device, predicate, data):
    check_unless_refused(GATEWARE[device], data.draw(cases(PREDICATES[predicate])))


def check_unless_refused(device: str, case: Case) -> None:
    """Check a case. Devices of bounded size may refuse one, with a reason."""
    try:
        check(device, case)
    except Refused as refused:
        if device in TAKES_EVERYTHING or not _may_refuse(device, case):
            raise
        event(f"refused: {refused}")


def _may_refuse(device: str, case: Case) -> bool:
    """Say whether a refusal is no fault: limits are written down here."""
    kind, _, text = device.partition("?")
    options = dict(part.split("=") for part in text.split("&"))
    if kind != "cpu":
        held = int(options["window"])
        return any(one.kind == "rows" and one.count > held for one in case.windows)
    engine = options.get("engine", "auto")
    if engine == "grid" and case.order.kind != "none":
        return True
    return any(PREDICATES[name] == case.on for name in REFUSES.get(engine, ()))


def _rows(side: str, count: int, **columns) -> list[dict]:
    name = {"r": "rid", "s": "sid"}[side]
    return [
        {name: i, "ts": i, **{key: make(i) for key, make in columns.items()}} for i in range(count)
    ]


@pytest.mark.parametrize("device", SOFTWARE)
@pytest.mark.parametrize("order", ["none", "outer", "inner"])
def test_ids_that_wrap_around_many_times_still_name_the_right_rows(device, order):
    r = _rows("r", 1000, x=lambda i: i % 7, y=float, t=str)
    s = _rows("s", 1000, a=lambda i: i % 5, b=float, u=str)
    check(device, Case("r.x = s.a", [r], [s], (rows(30), rows(50)), Order(order), False, id_bits=8))


@pytest.mark.parametrize("device", SOFTWARE)
@pytest.mark.parametrize("size", [2**63 - 1, 2**63, 2**64, 2**70])
def test_windows_longer_than_time_itself(device, size):
    r = [{"rid": i, "ts": ts, "x": 1} for i, ts in enumerate([-(2**63), -5])]
    s = [{"sid": i, "ts": ts, "a": 1} for i, ts in enumerate([2**63 - 2, 2**63 - 1])]
    check(device, Case("r.x = s.a", [r], [s], (time(size), time(size)), Order("inner"), True))


@pytest.mark.parametrize("device", SOFTWARE)
def test_both_sides_may_be_the_same_stream(device):
    r = _rows("r", 60, x=lambda i: i * 7 % 11, y=float, t=lambda i: str(i % 3))
    s = _rows("s", 60, a=lambda i: i * 7 % 11, b=float, u=lambda i: str(i % 3))
    on = "r.x = s.a AND r.t = s.u AND r.y <> s.b"
    check(device, Case(on, [r], [s], (time(20), rows(9)), Order("inner"), True))


@pytest.mark.parametrize("device", [d for d in SOFTWARE if d != "reference"])
@pytest.mark.parametrize("order", ["inner", "inner:4", "outer:7"])
def test_windows_larger_than_a_block_of_the_engine(device, order):
    """Several blocks, groups and jobs, against the slow device on the same words."""
    r = _rows("r", 3000, x=lambda i: i * 31 % 1000, y=lambda i: float(i % 97), t=str)
    s = _rows("s", 20_000, a=lambda i: i * 17 % 1000, b=lambda i: float(i % 89), u=str)
    kind, _, every = order.partition(":")
    case = Case(
        "r.x = s.a AND abs(r.y - s.b) <= 3",
        [r], [s], (rows(2500), rows(17_000)), Order(kind, int(every or 0)), False,
    )  # fmt: skip
    found, _ = run(device, case)
    plain = _by_hash(r, s, 2500, 17_000)
    assert [pair for segment in found for pair in segment] == plain
    stars = {"inner": 23_000, "outer": -(-23_000 // 7), "inner:4": _intervals(4, 2500, 17_000)}
    assert len(found) == stars["outer" if kind == "outer" else order]


def _intervals(every, window_r, window_s):
    """Count the stars of inner:N: one per so many comparisons, at least one per arrival."""
    arrivals, _ = reference.arrival_order([[None] * 3000], [[None] * 20_000])
    count, stars = {"r": 0, "s": 0}, 0
    for one in arrivals:
        partners = min(count["s"], window_s) if one.side == "r" else min(count["r"], window_r)
        stars += max(1, -(-partners // every))
        count[one.side] += 1
    return stars


def _by_hash(r, s, window_r, window_s):
    """Join on equality the way a hash join does: a second opinion that is fast enough."""
    held = {"r": {}, "s": {}}
    count = {"r": 0, "s": 0}
    pairs = []
    arrivals, _ = reference.arrival_order([r], [s])
    for one in arrivals:
        other = "s" if one.side == "r" else "r"
        key = one.row["x" if one.side == "r" else "a"]
        oldest = count[other] - (window_s if other == "s" else window_r)
        for place, row in held[other].get(key, []):
            y, b = (one.row["y"], row["b"]) if one.side == "r" else (row["y"], one.row["b"])
            if place >= oldest and abs(y - b) <= 3:
                a, b = (one.row, row) if one.side == "r" else (row, one.row)
                pairs.append((a["rid"], b["sid"]))
        held[one.side].setdefault(key, []).append((count[one.side], one.row))
        count[one.side] += 1
    return pairs


def test_the_suite_notices_a_window_that_is_off_by_one(monkeypatch):
    from eddyline.engine.history import History

    right = History.window_starts
    monkeypatch.setattr(
        History,
        "window_starts",
        lambda self, stops, now: (right(self, stops, now) + 1).clip(max=stops),
    )
    r = _rows("r", 9, x=lambda i: 1, y=float, t=str)
    s = _rows("s", 9, a=lambda i: 1, b=float, u=str)
    with pytest.raises(AssertionError):
        check(
            "cpu?engine=nested",
            Case("r.x = s.a", [r], [s], (rows(3), rows(3)), Order("none"), False),
        )


@pytest.mark.parametrize("device", [*SOFTWARE, "cpu?engine=nested"])
def test_pulling_goes_on_where_nothing_was_found(device, monkeypatch):
    """Work without pairs or stars must not look like the end of the work."""
    monkeypatch.setattr(nested_join, "JOB", 10)
    r = _rows("r", 200, x=lambda i: i, y=float, t=str)
    s = _rows("s", 200, a=lambda i: i if i > 190 else -1, b=float, u=str)
    case = Case("r.x = s.a", [r], [s], (rows(50), rows(50)), Order("outer", 500), False)
    check(device, case)
    with open_device(device) as one:
        one.configure(case.query.plan)
        encoded = {
            side: SideEncoder(case.query.lowering.side(side), Dictionary(), side=side).encode(
                case.tables(side)[0].to_batches()[0]
            )
            for side in "rs"
        }
        one.push(Tuples(np.tile(np.array([0, 1], np.uint8), 200), encoded["r"], encoded["s"]))
        pairs = 0
        while not (results := one.pull()).nothing:
            pairs += len(results)
        assert (pairs, results.closed) == (9, 400)


def test_one_thread_and_many_give_the_same():
    assert CpuDevice(threads=1).threads == 1
    r = _rows("r", 400, x=lambda i: i % 13, y=float, t=str)
    s = _rows("s", 400, a=lambda i: i % 11, b=float, u=str)
    case = Case("r.x >= s.a", [r], [s], (rows(90), rows(200)), Order("inner"), False)
    assert run("cpu?threads=1", case)[0] == run("cpu?threads=3", case)[0]
