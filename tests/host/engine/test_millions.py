"""On a million rows, drawn anew for each seed, all structures find the same pairs."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from tests.bench.test_agreement import mixed

pytestmark = pytest.mark.slow
ROWS = 1 << 20
HIGH = 1 << 24  # values lie below


def spread(rng: np.random.Generator, shape: str, sorted_by: np.ndarray) -> np.ndarray:
    """Draw a value per row; ``sorted_by`` tells how far along the stream a row is."""
    at = rng.random(ROWS)
    values = {
        "uniform": at,
        "skewed": at**4,
        "peaks": (rng.integers(0, 5, ROWS) + rng.normal(0.5, 0.02, ROWS)) / 5,
        "rising": sorted_by + 0.01 * at,
        "jumping": (np.floor(sorted_by * 7) % 3 + at) / 3,
    }[shape]
    return (values * HIGH).clip(0, HIGH - 1).astype(np.int32)


# Condition, and engines that serve it beside what the cpu device takes by itself.
RANGED = ("bisort", "rap", "wib")
CONDITIONS = {
    "one band": ("r.x BETWEEN s.a - {e} AND s.a + {e}", (*RANGED, "grid")),
    "two bands": ("abs(r.x - s.a) <= {w} AND abs(r.y - s.b) <= {w}", ("bisort", "grid")),
    "equality": ("r.k = s.k", (*RANGED, "hash")),
    "equality and band": ("r.g = s.g AND abs(r.x - s.a) <= {b}", RANGED),
    "either": ("abs(r.x - s.a) <= {e} OR r.k = s.k", RANGED),
}


@pytest.mark.parametrize("seed", range(10))
def test_all_structures_find_the_same_pairs(seed):
    rng = np.random.default_rng(seed)
    name = list(CONDITIONS)[seed % len(CONDITIONS)]
    on, engines = CONDITIONS[name]
    shape, other = rng.choice(["uniform", "skewed", "peaks", "rising", "jumping"], 2)
    size = int(rng.choice([1 << 12, 1 << 15, 1 << 17]))
    along = np.arange(ROWS) / ROWS
    sides = []
    for columns in (("x", "y"), ("a", "b")):
        ts = np.sort(rng.integers(0, ROWS, ROWS))
        values = {
            one: spread(rng, kind, along) for one, kind in zip(columns, (shape, other), strict=True)
        }
        k, g = rng.integers(0, size, ROWS), rng.zipf(1.5, ROWS) % 50
        sides.append(pa.table({"seq": np.arange(ROWS), "ts": ts, **values, "k": k, "g": g}))
    timed = bool(rng.integers(2))
    order = str(rng.choice(["none", "outer"]))
    found = {}
    e, w = max(1, HIGH // (16 * size)), int(HIGH / (8 * size**0.5))
    for device in ("cpu", *(f"cpu?engine={one}" for one in engines), "cpu?workers=2"):
        if device.endswith("grid") and order != "none":
            continue
        joined = eddyline.join(
            *sides, on=on.format(e=e, w=w, b=40 * e), order=order, device=device,
            window=eddyline.time(size) if timed else eddyline.rows(size),
            time="ts", select="r.seq AS i, s.seq AS j",
        )  # fmt: skip
        count = total = 0
        for batch in joined:
            count += len(batch)
            total += mixed(batch["i"].to_numpy(), batch["j"].to_numpy())
        found[device] = count, total % 2**64
    assert found["cpu"][0] > 1000, f"{name}, {shape}, {other}, {size}: {found}"
    assert len(set(found.values())) == 1, f"{name}, {shape}, {other}, {size}, {timed}: {found}"
