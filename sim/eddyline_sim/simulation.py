"""A compiled operator that takes and gives whole arrays."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from eddyline.errors import DeviceError, MachineError
from eddyline_sim.binding import header, load
from eddyline_sim.build import TRACES, build_simulator
from eddyline_sim.shell import Shell

__all__ = ["ContractViolated", "Simulation", "SimulationStuck"]

DONE, PAUSED, FULL, STUCK, WITHDRAWN, CHANGED, FAILED = range(7)
SLICE = 0.2  # seconds between two looks at signals such as Ctrl-C


class SimulationStuck(DeviceError):
    """Nothing moved for too long; ``cycle`` is the cycle of ``sync`` at which we gave up."""

    def __init__(self, name: str, cycle: int, patience: int, detail: str):
        super().__init__(
            f"simulation {name} is stuck: nothing moved for {patience} cycles"
            f" before cycle {cycle} ({detail})"
        )
        self.cycle = cycle


class ContractViolated(DeviceError):
    """The operator broke the stream contract on its output before ``cycle``."""

    def __init__(self, name: str, cycle: int, what: str):
        super().__init__(f"simulation {name}: {what} before it was taken, cycle {cycle}")
        self.cycle = cycle


class Simulation:
    """Run an operator cycle by cycle, fed from arrays. Use it from one thread at a time.

    The design is compiled at the first use and kept in the user's cache directory. It starts
    reset. Close it, or use it in a ``with`` statement.

    Parameters
    ----------
    component : wiring.Component
        An operator with streams ``i`` and ``o``; its other inputs are settings, its other
        outputs counters, both of up to 64 bits. It may use clock domains ``sync`` and ``merge``;
        ``i`` belongs to ``sync``, and so does ``o`` unless ``component.output_domain`` says
        ``"merge"``.
    name : str
        What to call it in messages and waveforms, for instance ``handshake-16``.
    trace : path, optional
        Write waveforms there, as FST or, if the name ends so, VCD.
    merge_clock : float
        Frequency of ``merge`` relative to ``sync``, 0.001 to 1000. Both start with an edge.
    progress : callable, optional
        Gets a line of text at every step of a compilation.

    Members
    -------
    settings : dict of str to int
        Settings and their present values; change them with ``set``.
    counters : tuple of str
        What ``get`` reads besides ``cycles``.
    cycles : int
        Cycles of ``sync`` since the last reset.
    stamped : bool
        Note when payloads are transferred. False at first: then that costs nothing.
    taken_at, given_at : array of uint64
        The cycles of ``sync`` in which each payload of the last ``run`` or ``step`` was transferred
        at ``i`` and at ``o``, counted from the last reset; nothing unless ``stamped``.
    """

    def __init__(
        self,
        component,
        *,
        name: str,
        trace: str | Path | None = None,
        merge_clock: float = 1.0,
        progress: Callable[[str], None] | None = None,
    ):
        self._handle = None
        if not 0.001 <= merge_clock <= 1000:
            raise ValueError(f"merge_clock is 0.001 to 1000 times sync, not {merge_clock!r}")
        suffix = None if trace is None else Path(trace).suffix
        if suffix not in (None, *TRACES):
            raise ValueError(f"waveforms end in {' or '.join(TRACES)}, not {str(trace)!r}")
        if trace is not None:
            _check_writable(trace)
        self.name = name
        self._merge_clock = merge_clock
        shell = Shell(component, output_domain=getattr(component, "output_domain", "sync"))
        rtlil, has_merge = shell.rtlil("".join(c if c.isalnum() else "_" for c in name))
        path = build_simulator(
            rtlil,
            header(shell, has_merge),
            name=name,
            trace=suffix,
            progress=progress or (lambda text: None),
        )
        self._widths = {key: len(value) for key, value in shell.settings.items()}
        self._ports = {key: number for number, key in enumerate(shell.settings)}
        self._counters = {key: number for number, key in enumerate(shell.counters)}
        self.settings = {key: value.init for key, value in shell.settings.items()}
        self.counters = tuple(self._counters)
        self._stars = shell.i_star is not None and shell.o_star is not None
        self._words_in = (shell.i_width + 31) // 32
        self._words_out = (shell.o_width + 31) // 32
        self._always_ready = component.signature.members["o"].signature.always_ready
        self.stamped = False
        self.taken_at = self.given_at = np.empty(0, np.uint64)
        self._rate = 20_000.0  # cycles per second, measured as we go
        self._broken = None
        self._library = load(path)
        message = ctypes.create_string_buffer(1000)
        trace_path = b"" if trace is None else str(trace).encode()
        self._handle = self._library.eddyline_open(merge_clock, trace_path, message, 1000)
        if not self._handle:
            raise DeviceError(f"simulation {name} does not start: {message.value.decode()}")
        for key, value in self.settings.items():
            self.set(key, value)
        self.reset()

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the model and complete the waveform file. May be called twice."""
        if self._handle:
            self._library.eddyline_close(self._handle)
            self._handle = None

    def set(self, name: str, value: int) -> None:
        """Change a setting from the next cycle on."""
        if name not in self._ports:
            raise ValueError(f"no setting {name!r} (known: {', '.join(self._ports) or 'none'})")
        if not 0 <= value < 1 << self._widths[name]:
            raise ValueError(f"setting {name!r} has {self._widths[name]} bits, {value} has more")
        self.settings[name] = value
        self._library.eddyline_set(self._open(), self._ports[name], value)

    def get(self, name: str) -> int:
        """Read a counter or other output, or ``cycles``."""
        if name in self._counters:
            return self._library.eddyline_get(self._open(), self._counters[name])
        if name == "cycles":
            return self.cycles
        raise ValueError(f"no counter {name!r} (known: {', '.join((*self._counters, 'cycles'))})")

    @property
    def broken(self) -> bool:
        """A run has failed or was interrupted: only a reset helps."""
        return self._broken is not None

    @property
    def cycles(self) -> int:
        return self._library.eddyline_cycles(self._open())

    def reset(self) -> None:
        """Reset all clock domains. Settings stay; what was in flight is lost; cycles restart."""
        self._check(self._library.eddyline_reset(self._open()), 0)
        self._broken = None

    def stall(self, probability: int, seed: int = 0) -> None:
        """Refuse output in ``probability`` of 256 cycles at random."""
        if self._always_ready and probability:
            raise ValueError("stream 'o' promises to be always ready")
        self._library.eddyline_stall(self._open(), _probability(probability), seed)

    def idle(self, probability: int, seed: int = 0) -> None:
        """Pause before an input in ``probability`` of 256 cycles at random."""
        self._library.eddyline_idle(self._open(), _probability(probability), seed)

    def run(self, words: np.ndarray, *, until_star: bool, patience: int = 1_000_000) -> np.ndarray:
        """Feed payloads as fast as they are taken, and return those that came out meanwhile.

        Parameters
        ----------
        words : array of uint32, shape (n, words per payload)
            Payloads, least significant word first.
        until_star : bool
            Go on until a star has come out for every star that went in since the last reset.
        patience : int
            Cycles without any transfer after which to raise ``SimulationStuck``.

        After an exception, an interruption included, the simulation must be reset.
        """
        words = np.ascontiguousarray(words, dtype=np.uint32)
        if words.ndim != 2 or words.shape[1] != self._words_in:
            raise ValueError(f"payloads have shape (n, {self._words_in}), not {words.shape}")
        if until_star and not self._stars:
            raise ValueError("run until a star needs a field 'star' in both payloads")
        return self._clock(words, until_star, 0, patience)

    def step(self, cycles: int) -> np.ndarray:
        """Let ``cycles`` cycles pass without new input, and return what came out."""
        nothing = np.empty((0, self._words_in), np.uint32)
        return self._clock(nothing, False, self.cycles + cycles, cycles)

    def _clock(self, words: np.ndarray, until_star: bool, until: int, patience: int) -> np.ndarray:
        handle = self._open()
        if self._broken:
            raise DeviceError(f"simulation {self.name} must be reset after: {self._broken}")
        self._library.eddyline_begin(handle)
        taken, count = ctypes.c_uint64(0), ctypes.c_uint64(0)
        filled = []
        output = np.empty((max(1024, len(words)), self._words_out), np.uint32)
        stamps = []
        taken_at, given_at = (np.empty(len(a) * self.stamped, np.uint64) for a in (words, output))
        self._broken = "an interrupted run"
        while True:
            self._library.eddyline_stamp(
                handle,
                taken_at.ctypes.data if self.stamped else None,
                given_at.ctypes.data if self.stamped else None,
            )
            budget = max(1000, int(self._rate * SLICE))
            before, start = self.cycles, time.perf_counter()
            status = self._library.eddyline_run(
                handle, words.ctypes.data, taken, len(words), output.ctypes.data, count,
                len(output), until_star, until, budget, patience,
            )  # fmt: skip
            elapsed = time.perf_counter() - start
            if status == PAUSED:
                # Never faster than tenfold: a quick start says little about what follows.
                rate = (self.cycles - before) / max(elapsed, 1e-6)
                self._rate = min(rate, self._rate * 10)
            elif status == FULL:
                filled.append(output)
                stamps.append(given_at)
                output, given_at = np.empty_like(output), np.empty_like(given_at)
                count.value = 0
            else:
                break
        self._check(status, patience, f"{taken.value} of {len(words)} inputs taken")
        self._broken = None
        self.taken_at = taken_at
        self.given_at = np.concatenate([*stamps, given_at[: count.value]])
        return np.concatenate([*filled, output[: count.value]])

    def _check(self, status: int, patience: int, detail: str = "") -> None:
        if status == DONE:
            return
        if status == STUCK:
            owed = self._library.eddyline_owed(self._handle)
            detail += f", {owed} stars in flight"
            error = SimulationStuck(self.name, self.cycles, patience, detail)
        elif status == FAILED:
            text = self._library.eddyline_error(self._handle).decode()
            error = DeviceError(f"simulation {self.name} failed at cycle {self.cycles}: {text}")
        else:
            what = "an offer was withdrawn" if status == WITHDRAWN else "an offer changed"
            error = ContractViolated(self.name, self.cycles, what)
        self._broken = str(error)
        raise error

    def _open(self) -> int:
        if not self._handle:
            raise DeviceError(f"simulation {self.name} is closed")
        return self._handle


def _probability(value: int) -> int:
    if not 0 <= value < 256:
        raise ValueError(f"a probability in 256 is 0 to 255, not {value!r}")
    return value


def _check_writable(path: str | Path) -> None:
    try:
        open(path, "wb").close()
    except OSError as error:
        raise MachineError(f"cannot write waveforms to {path}: {error.strerror}") from None
