"""The papers' benchmark streams, reproducible from a seed on every machine and version.

Random numbers come from SplitMix64 by counter, not from a library: row ``i`` of a column is a
function of (seed, column, i) alone, so streams can be generated in any order and in pieces.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.errors import QueryError

__all__ = ["RATES", "PanJoin", "ScaleJoin", "SplitJoin", "uniform"]

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
BAND_2D = "r.x BETWEEN s.a-10 AND s.a+10 AND r.y BETWEEN s.b-10 AND s.b+10"
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz012345", np.uint8)


def _mixed(key: int, counters: np.ndarray) -> np.ndarray:
    """Return SplitMix64's output number ``counter`` for the state ``key``."""
    z = counters.astype(np.uint64) * np.uint64(GOLDEN) + np.uint64(key & MASK)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed: int, column: str, rows: np.ndarray) -> np.ndarray:
    """Return doubles in [0, 1), one per row."""
    key = seed & MASK
    for byte in column.encode():
        key = int(_mixed(key ^ byte, np.array([1]))[0])
    return (_mixed(key, rows + 1) >> np.uint64(11)) * 2.0**-53


def _integers(seed: int, column: str, rows: np.ndarray, low: int, high: int) -> np.ndarray:
    return low + np.floor(uniform(seed, column, rows) * (high - low + 1)).astype(np.int64)


def _texts(seed: int, column: str, rows: np.ndarray, length: int) -> pa.Array:
    """Return strings of fixed length, 12 letters to a random number."""
    letters = np.empty((len(rows), length), np.uint8)
    for place in range(length):
        digits = uniform(seed, f"{column}{place // 10}", rows) * 32 ** (place % 10 + 1)
        letters[:, place] = LETTERS[digits.astype(np.int64) % 32]
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * length
    return pa.StringArray.from_buffers(
        len(rows), pa.py_buffer(offsets), pa.py_buffer(letters.tobytes())
    )


def _r_columns(seed: int, rows: np.ndarray) -> dict[str, pa.Array]:
    return {
        "x": pa.array(_integers(seed, "x", rows, 1, 10_000), pa.int32()),
        "y": pa.array(1 + uniform(seed, "y", rows) * 9_999, pa.float32()),
        "z": _texts(seed, "z", rows, 20),
    }


def _s_columns(seed: int, rows: np.ndarray) -> dict[str, pa.Array]:
    return {
        "a": pa.array(_integers(seed, "a", rows, 1, 10_000), pa.int32()),
        "b": pa.array(1 + uniform(seed, "b", rows) * 9_999, pa.float32()),
        "c": pa.array(uniform(seed, "c", rows), pa.float64()),
        "d": pa.array(uniform(seed, "d", rows) < 0.5),
    }


@dataclass(frozen=True)
class SplitJoin:
    """SplitJoin section 7.1, the benchmark of CellJoin and handshake join.

    R = (x int, y float, z char[20]), S = (a int, b float, c double, d bool), uniform in 1..10^4;
    one comparison in 250,000 matches. With a rate, a column ``ts`` counts milliseconds.
    """

    rows: int
    seed: int
    rate: float | None = None

    on = BAND_2D

    @property
    def streams(self) -> list[str]:
        return ["r", "s"]

    @property
    def hint(self) -> str:
        return "--time ts --window time:10s" if self.rate else "--window rows:65536"

    def batches(self, name: str, size: int = 1 << 16) -> Iterator[pa.RecordBatch]:
        make = _r_columns if name == "r" else _s_columns
        for rows in _pieces(self.rows, size):
            columns = make(self.seed, rows)
            if self.rate:
                milliseconds = np.floor(rows * (1000 / self.rate)).astype(np.int64)
                columns = {"ts": pa.array(milliseconds, pa.timestamp("ms"))} | columns
            yield pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class PanJoin:
    """PanJoin section V-A: tuples <key, value> of two 32-bit integers, joined on a band of value.

    Parameters
    ----------
    selectivity : float
        Partners a tuple finds on average in a full window; sets the width of the band.
    distribution : str
        ``uniform``, ``normal`` (with ``modes`` peaks) or ``ranksize``, where as in the paper's
        video view counts 99 % of the values lie in 1 % of their range.
    spread : float, optional
        Share of the positive 32-bit integers that the values cover, or standard deviation of a
        peak as such a share. By default 1 for ``uniform``, 0.05 for ``normal`` and 0.01 for
        ``ranksize``.
    """

    rows: int
    seed: int
    window: int = 65_536
    selectivity: float = 1.0
    distribution: str = "uniform"
    spread: float | None = None
    modes: int = 1

    def __post_init__(self) -> None:
        if self.distribution not in SPREADS:
            known = ", ".join(SPREADS)
            raise QueryError(f"no distribution {self.distribution!r} (known: {known})")
        if self.selectivity <= 0 or self.window < 1 or self.modes < 1:
            raise QueryError("selectivity, window and modes must be above zero")
        if self.spread is not None and not 0 < self.spread <= 1:
            raise QueryError(f"spread {self.spread} is not a share of the range, 0 to 1")

    @property
    def streams(self) -> list[str]:
        return ["r", "s"]

    @property
    def band(self) -> int:
        """Half the width of the band, so that a tuple meets ``selectivity`` partners.

        The share of pairs within a distance is measured on two samples. Small shares are too few
        to be counted, but there the share grows in proportion to the distance.
        """
        ours, theirs = (self._values(f"band {side}", np.arange(1 << 16)) for side in "rs")
        gaps = np.abs(ours[:: 1 << 8, None] - theirs[None, :])
        share = min(1.0, self.selectivity / self.window)
        counted = max(share, COUNTED)
        return round(float(np.quantile(gaps, counted)) * share / counted)

    @property
    def on(self) -> str:
        return f"s.value BETWEEN r.value - {self.band} AND r.value + {self.band}"

    @property
    def hint(self) -> str:
        return f"--window rows:{self.window}"

    def batches(self, name: str, size: int = 1 << 16) -> Iterator[pa.RecordBatch]:
        for rows in _pieces(self.rows, size):
            yield pa.RecordBatch.from_pydict(
                {
                    "key": pa.array(rows, pa.int32()),
                    "value": pa.array(self._values(name, rows), pa.int32()),
                }
            )

    def _values(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Draw values between 0 and 2^31 - 1."""
        span = 2.0**31
        spread = SPREADS[self.distribution] if self.spread is None else self.spread
        u = uniform(self.seed, f"{name} value", rows)
        mode = np.floor(uniform(self.seed, f"{name} mode", rows) * self.modes)
        centre = (mode + 0.5) / self.modes
        if self.distribution == "uniform":
            place = centre + (u - 0.5) * spread / self.modes
        elif self.distribution == "normal":
            turn = uniform(self.seed, f"{name} turn", rows)
            place = centre + spread * np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * turn)
        else:
            # Size is inverse to rank: 99 % of the ranks lie below a hundredth of the largest size.
            place = spread * np.minimum(1e-4 / np.maximum(u, 1e-9), 1)
        return np.clip(np.floor(place * span), 0, span - 1).astype(np.int64)


# Share of the pairs of two samples that is still enough to be counted.
COUNTED = 1e-3
SPREADS = {"uniform": 1.0, "normal": 0.05, "ranksize": 0.01}

# ScaleJoin figure 8: physical streams of R and of S, and each one's rate in tuples per second.
# Of the second and third set-up the paper gives the number of streams and shows the curves.
RATES = {
    "constant": (["r0"], ["s0", "s1", "s2", "s3"]),
    "fluctuating": (["r0", "r1", "r2"], ["s0", "s1"]),
    "peaks": (["r0", "r1", "r2", "r3"], ["s0", "s1"]),
}


@dataclass(frozen=True)
class ScaleJoin:
    """ScaleJoin's benchmark: SplitJoin's tuples with a time, over several physical streams.

    ``pattern`` is ``constant`` (1 R stream of 1,200 tuples/s, 4 S streams of 900 together),
    ``fluctuating`` (3 R, 2 S, sine waves of different amplitude and period) or ``peaks`` (4 R,
    2 S, constant with sudden peaks).
    """

    seconds: float
    seed: int
    pattern: str = "constant"

    on = BAND_2D
    hint = "--time ts --window time:60s"

    def __post_init__(self) -> None:
        if self.pattern not in RATES:
            raise QueryError(f"no pattern {self.pattern!r} (known: {', '.join(RATES)})")

    @property
    def streams(self) -> list[str]:
        r, s = RATES[self.pattern]
        return r + s

    def rate(self, name: str, seconds: np.ndarray) -> np.ndarray:
        """Return a stream's rate at given times."""
        r, s = RATES[self.pattern]
        number = (r if name[0] == "r" else s).index(name)
        share = (1200 / len(r)) if name[0] == "r" else (900 / len(s))
        if self.pattern == "fluctuating":
            amplitude, period = 0.2 + 0.2 * number, 20.0 * (number + 1)
            return share * (1 + amplitude * np.sin(2 * np.pi * seconds / period))
        if self.pattern == "peaks":
            every, lasts = 30.0 + 7 * number, 3.0
            return share * np.where(seconds % every < lasts, 4.0, 1.0)
        return np.full(len(seconds), share)

    def batches(self, name: str, size: int = 1 << 16) -> Iterator[pa.RecordBatch]:
        milliseconds = np.arange(int(self.seconds * 1000))
        total = np.cumsum(self.rate(name, milliseconds / 1000) / 1000)
        count = int(total[-1]) if len(total) else 0
        make = _r_columns if name[0] == "r" else _s_columns
        for rows in _pieces(count, size):
            times = np.searchsorted(total, rows + 1, "left")
            # Each physical stream draws its own numbers.
            columns = make(self.seed * 1000 + self.streams.index(name), rows)
            yield pa.RecordBatch.from_pydict({"ts": pa.array(times, pa.timestamp("ms"))} | columns)


def _pieces(count: int, size: int) -> Iterator[np.ndarray]:
    for start in range(0, max(count, 1), size):
        yield np.arange(start, min(count, start + size))
