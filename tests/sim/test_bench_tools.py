"""The tools of the benches: what they promise, and that they can say no."""

import os
import time
from collections import Counter
from functools import partial
from itertools import islice
from random import Random

import pytest
from amaranth.lib import data

from eddyline_hw.stream.fifo import Fifo
from sim.benches import build
from sim.benches.coverage import Coverage
from sim.benches.joins import difference
from sim.benches.patterns import IDLE, pauses
from sim.benches.ports import Payload, describe
from sim.benches.stalls import Stalling
from tests.hw.bench import collect, feed, simulate
from tests.sim import blocks

NESTED = data.StructLayout(
    {
        "star": 1,
        "entry": data.UnionLayout({"r": data.StructLayout({"id": 4, "x": 9}), "s": 7}),
        "lanes": data.ArrayLayout(3, 2),
    }
)


def test_payloads_are_laid_out_as_amaranth_does_it():
    payload = Payload.of(NESTED)
    value = {"star": 1, "entry": {"r": {"id": 5, "x": 300}}, "lanes": {"0": 6, "1": 1}}
    bits = NESTED.const({"star": 1, "entry": {"r": {"id": 5, "x": 300}}, "lanes": [6, 1]})
    assert payload.encode(value) == bits.as_value().value
    decoded = payload.decode(payload.encode(value))
    assert decoded["entry"].pop("s") == (300 << 4 | 5) % 2**7
    assert decoded == value


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="512 does not fit into 9 bits"):
        Payload.of(NESTED).encode({"entry": {"r": {"x": 512}}})


def test_ports_have_their_names_in_verilog():
    ports = describe(blocks.merger(2, stars=True).component)
    assert {name: port["flow"] for name, port in ports["streams"].items()} == {
        "i__0": "in",
        "i__1": "in",
        "o": "out",
    }
    assert list(describe(blocks.arbiter(2).component)["signals"]) == [
        "requests",
        "advance",
        "grant",
    ]


@pytest.mark.parametrize("pattern", IDLE)
def test_no_pattern_pauses_for_ever(pattern):
    bits = list(islice(pauses(pattern, Random(1)), 400))
    assert not all(bits)
    assert any(bits) == (pattern != "never")


def test_an_unknown_pattern_is_refused():
    with pytest.raises(ValueError, match="no pattern called 'sometimes'"):
        pauses("sometimes", Random(1))


def test_a_corner_case_that_was_not_met_is_named():
    coverage = Coverage("full", "empty")
    coverage.hit("full")
    with pytest.raises(AssertionError, match="never met: empty"):
        coverage.check()
    with pytest.raises(KeyError):
        coverage.hit("fulll")


@pytest.mark.parametrize(
    ("got", "says"),
    [
        ([[(1, 1)], [(2, 2)]], ""),
        ([[(1, 1)], []], "(2, 2) is missing"),
        ([[(1, 1), (1, 1)], [(2, 2)]], "(1, 1) came 2 times"),
        ([[(1, 1), (3, 1)], [(2, 2)]], "(3, 1) is no result"),
        ([[], [(1, 1), (2, 2)]], "(1, 1) came behind star 0"),
        ([[(1, 1), (2, 2)], []], "(2, 2) came before star 0, not 1"),
    ],
)
def test_every_kind_of_wrong_result_is_named(got, says):
    expected = [Counter([(1, 1)]), Counter([(2, 2)])]
    assert difference([Counter(epoch) for epoch in got], expected) == says


def test_a_queue_that_stalls_hides_what_it_has_and_clears_what_it_promised():
    layout = data.StructLayout({"star": 1, "number": 7})
    payloads = [layout.const({"star": 1, "number": number}) for number in range(128)]
    queue = Stalling(Fifo(layout, depth=8, clears=("star",)))
    got, hidden = [], 0

    async def watch(ctx):
        nonlocal hidden
        ports = queue.o.valid, queue.o.payload.star, queue.queue.o.valid
        async for *_, valid, star, there in ctx.tick().sample(*ports):
            assert star == valid
            hidden += there and not valid

    simulate(
        queue,
        partial(feed, port=queue.i, payloads=payloads),
        partial(collect, port=queue.o, count=len(payloads), into=got),
        watch=[watch],
        limit=10_000,
    )
    assert [one.number for one in got] == list(range(128))
    assert hidden


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "eddyline" / "cocotb"


def test_a_build_is_made_once_and_forgotten_when_nobody_wants_it(cache):
    made = []

    def make(folder):
        made.append(folder)
        (folder / "block").touch()

    for _ in range(2):
        assert (build._cached("key", make) / "block").exists()
    assert len(made) == 1
    old = time.time() - 2 * build.UNUSED_AFTER
    os.utime(cache / "key", (old, old))
    build._cached("other", make)
    assert sorted(path.name for path in cache.iterdir() if path.is_dir()) == ["other"]


def test_a_build_that_fails_leaves_nothing(cache):
    def fail(folder):
        (folder / "half").touch()
        build._run(["false"])

    with pytest.raises(build.BuildFailed, match="false exited with 1"):
        build._cached("key", fail)
    assert not any(path.is_dir() for path in cache.iterdir())
