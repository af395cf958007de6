"""Which index serves a predicate, and which engine is taken."""

import numpy as np
import pyarrow as pa
import pytest

from eddyline.cli.explain import describe
from eddyline.device import Tuples, cpu
from eddyline.device.cpu import CpuDevice
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.engine.access import access_paths
from eddyline.engine.choice import Observed, choose, follow
from eddyline.errors import DeviceError
from eddyline.plan import Order
from eddyline.query import Query
from eddyline.query.window import rows
from tests.host.twin.joins import parts

R = pa.schema({"x": pa.int32(), "y": pa.float32(), "t": pa.string(), "w": pa.int64()})
S = pa.schema({"a": pa.int32(), "b": pa.float32(), "u": pa.string(), "v": pa.int64()})
BANDS = "abs(r.x - s.a) <= 3 AND abs(r.y - s.b) <= 3"


def plan(on: str, order: str = "none"):
    return Query(R, S, on, rows(10), rows(10), order=Order(order)).plan


@pytest.mark.parametrize(
    ("on", "equal", "dimensions", "tests"),
    [
        ("r.x = s.a", 1, 0, 0),
        ("r.x = s.a AND r.y = s.b", 2, 0, 0),
        ("r.w = s.v AND r.x = s.a", 2, 0, 2),  # 96 bits are hashed, so both are tested
        ("abs(r.x - s.a) <= 3", 0, 1, 0),
        ("r.x < s.a", 0, 1, 0),
        ("r.x BETWEEN s.a AND s.v", 0, 1, 0),
        ("r.x = s.a AND abs(r.y - s.b) <= 1", 1, 1, 0),
        ("r.w = s.v AND abs(r.y - s.b) <= 1", 1, 1, 3),  # the group is hashed into 32 bits
        (BANDS, 0, 2, 2),  # strips are tested
        ("r.x <> s.a", 1, 0, 0),
        ("r.x = s.a AND (r.y < s.b OR r.w = s.v)", 1, 0, 1),
    ],
)
def test_keys_decide_as_much_as_fits(on, equal, dimensions, tests):
    (path,) = access_paths(plan(on))
    assert (len(path.equal), len(path.dimensions), len(path.residual)) == (equal, dimensions, tests)


def test_a_disjunction_has_an_index_per_part():
    first, second = access_paths(plan("r.x = s.a OR abs(r.y - s.b) <= 1"))
    assert len(first.equal) == 1
    assert len(second.dimensions) == 1
    assert not first.excluded
    assert len(second.excluded) == 1
    inner = access_paths(plan("(r.x = s.a OR r.y = s.b) AND r.w <> s.v"))
    assert [len(path.equal) for path in inner] == [1, 1]


@pytest.mark.parametrize("on", ["TRUE", "r.x > 1 AND s.a < 3", "r.x = s.a OR r.x > 1"])
def test_what_no_index_serves_is_compared_pair_by_pair(on):
    assert access_paths(plan(on)) is None
    assert choose(plan(on)).engine == "nested"
    with pytest.raises(DeviceError, match="no index can: use nested or auto"):
        choose(plan(on), "bisort")


@pytest.mark.parametrize(
    ("on", "order", "engine"),
    [
        ("r.x = s.a", "inner", "hash"),
        ("abs(r.x - s.a) <= 3", "none", "grid"),
        ("abs(r.x - s.a) <= 3", "outer", "bisort"),
        ("r.x <= s.a", "none", "bisort"),
        ("r.x <= s.a AND r.y <= s.b", "none", "nested"),
        ("r.x <= s.a AND (r.y < s.b OR r.w = s.v)", "outer", "nested"),
        ("r.x <= s.a AND r.w = s.v", "none", "bisort"),
        ("abs(r.x - s.a) <= 3 AND r.y <= s.b", "none", "grid"),
        ("abs(r.x - s.a) <= 3 AND r.y <= s.b", "outer", "bisort"),
        (BANDS, "none", "grid"),
        (BANDS, "outer", "bisort"),
        ("r.x <> s.a", "none", "bisort"),
    ],
)
def test_the_engine_follows_from_the_predicate(on, order, engine):
    assert choose(plan(on, order)).engine == engine


def test_engines_that_cannot_serve_say_what_can():
    with pytest.raises(DeviceError, match="use bisort, rap or wib for bands"):
        choose(plan("r.x < s.a"), "hash")
    with pytest.raises(DeviceError, match="in order none"):
        choose(plan(BANDS, "inner"), "grid")


@pytest.mark.parametrize(
    ("on", "reason"),
    [
        ("abs(r.x - s.a) <= 3", "asked for"),
        (BANDS, "asked for; two bands are looked up in bisort"),
        ("r.x <> s.a", "asked for; inequalities are looked up in bisort"),
        ("r.x = s.a OR r.y <> s.b", "asked for; inequalities are looked up in bisort"),
    ],
)
def test_what_an_engine_leaves_to_another_is_said(on, reason):
    assert choose(plan(on), "wib").reason == reason
    assert choose(plan(on), "bisort").reason == "asked for"


def test_panjoins_rule():
    assert follow(Observed(window=1 << 20, batch=1 << 16, selectivity=1, drift=0))[0] == "bisort"
    assert follow(Observed(window=1 << 23, batch=16, selectivity=100, drift=0))[0] == "bisort"
    assert follow(Observed(window=1 << 23, batch=16, selectivity=1, drift=0.02))[0] == "rap"
    engine, reason = follow(Observed(window=1 << 23, batch=16, selectivity=1, drift=0.9))
    assert engine == "wib"
    assert "moves by 90%" in reason


def test_a_stream_that_changes_is_seen_as_it_is_now(monkeypatch):
    seen = []
    monkeypatch.setattr(cpu, "RECONSIDER", 400)
    monkeypatch.setattr(cpu, "follow", lambda one: (seen.append(one), ("bisort", "as before"))[1])
    query = Query(R, S, "abs(r.x - s.a) <= 1", rows(10), rows(10), order=Order("outer"))
    x, a = np.repeat([0, 7], 400), np.repeat([1000, 7], 400)
    records = [
        SideEncoder(query.lowering.side(side), Dictionary(), side=side).encode(
            pa.record_batch({name: pa.array(values, pa.int32())})
        )
        for side, name, values in (("r", "x", x), ("s", "a", a))
    ]
    whole = Tuples(np.tile(np.array([0, 1], np.uint8), 800), *records)
    with CpuDevice(threads=1) as device:
        device.configure(query.plan)
        for piece in parts(whole, [*range(200, 800, 200), *range(800, 1600, 2)]):
            device.push(piece)
            while not device.pull().nothing:
                pass
    assert [one.batch for one in seen] == [200, 200, 2, 2]
    assert (seen[1].selectivity, round(seen[3].selectivity)) == (0, 10)


def joined_piecewise(x, a, *, piece, **options):
    """Join alternating values piece by piece; yield the device after each."""
    query = Query(R, S, "abs(r.x - s.a) <= 1", rows(64), rows(64))
    records = [
        SideEncoder(query.lowering.side(side), Dictionary(), side=side).encode(
            pa.record_batch({name: pa.array(values, pa.int32())})
        )
        for side, name, values in (("r", "x", x), ("s", "a", a))
    ]
    whole = Tuples(np.tile(np.array([0, 1], np.uint8), len(x)), *records)
    with CpuDevice(threads=1, **options) as device:
        device.configure(query.plan)
        for one in parts(whole, [*range(piece, len(whole), piece)]):
            device.push(one)
            while not device.pull().nothing:
                pass
            yield device


def test_cells_give_way_by_what_came_of_late_and_the_choice_says_so(caplog):
    """Most of the stream has no pair; then every row has 64."""
    few, many = 1 << 17, 1 << 14
    rng = np.random.default_rng(1)
    x, a = (np.append(rng.integers(100, 1 << 30, few), np.full(many, 7)) for _ in "xa")
    caplog.set_level("INFO")
    engines = [device.choice.engine for device in joined_piecewise(x, a, piece=1 << 14)]
    assert engines[2 * few // (1 << 14) - 1] == "grid"
    assert engines[-1] == "bisort"
    assert "cells have become bisort: many pairs per tuple" in caplog.text


def test_workers_share_sorted_subwindows_instead_of_cells():
    bands = Query(R, S, BANDS, rows(10), rows(10))
    assert any("engine      grid" in line for line in describe(bands))
    text = "\n".join(describe(bands, workers=2))
    assert "engine      bisort, workers share sorted subwindows" in text
    assert "in strips" in text


def test_a_machine_without_a_compiler_still_joins(monkeypatch, caplog):
    from eddyline.build import native
    from eddyline.engine import indexed

    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    monkeypatch.setattr(indexed, "library", indexed.library.__wrapped__)
    with CpuDevice() as device:
        device.configure(plan("r.x = s.a"))
        assert "no C++ compiler" in caplog.text
    with pytest.raises(DeviceError, match="no C"):
        CpuDevice(engine="bisort").configure(plan("r.x = s.a"))
