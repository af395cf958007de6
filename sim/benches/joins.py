"""Random tuples, the pairs they have to give, and the results that came: for benches of joins."""

from collections import Counter

from eddyline.plan import Plan, Window
from eddyline.reference import STAR, Arrival, Join
from eddyline_hw.handshake.geometry import Chain

__all__ = ["Results", "Traffic", "difference"]


class Traffic:
    """Messages for a chain, and what it has to answer between one star and the next.

    A star closes the pairs that have met by then, and which those are follows from the chain's
    geometry; with a flush, all of them. Whatever was said before a flush is forgotten after it.

    Parameters
    ----------
    plan : str
        The plan as JSON: words ``x`` on R, ``lo`` and ``hi`` on S.
    kind, cores, window_r, window_s
        The chain.

    Members
    -------
    messages : list
        What to send.
    epochs : list of Counter
        For each star, the pairs that come before it and after the one before.
    """

    def __init__(self, plan, *, kind, cores, window_r, window_s):
        self.plan = Plan.from_json(plan)
        self.chain = Chain(cores, window_r, window_s, kind)
        self.windows = Window("rows", window_r), Window("rows", window_s)
        self.messages = []
        self.epochs = []
        self.ids = {"r": 0, "s": 0}
        self._restart()

    def _restart(self):
        self._join = Join(self._matches, *self.windows, self.plan.order)
        self._places = {"r": {}, "s": {}}  # which tuple of its side an id is, since then
        self._open = []

    def _matches(self, r, s):
        return self.plan.matches(r | {"valid": -1}, s | {"valid": -1})

    def tuple(self, side, words):
        """Let a tuple arrive."""
        number = self.ids[side]
        self.ids[side] += 1
        self._places[side][number] = len(self._places[side])
        self._open += [
            pair for pair in self._join.arrive(Arrival(side, number, words)) if pair != STAR
        ]
        entry = {side: {"id": number, "words": words}}
        self.messages.append({"star": 0, "flush": 0, "side": int(side == "s"), "entry": entry})

    def random_tuple(self, random, *, values, r_share=0.5):
        """Let a tuple arrive that matches about every ``values``-th of the other side."""
        x = random.randrange(values)
        if random.random() < r_share:
            self.tuple("r", {"x": x})
        else:
            self.tuple("s", {"lo": x, "hi": x + random.randrange(2)})

    def star(self, *, flush=False):
        """Let a punctuation arrive."""
        places_r, places_s = self._places["r"], self._places["s"]
        closed = [
            (r, s)
            for r, s in self._open
            if flush or self.chain.met(places_r[r], places_s[s], len(places_r), len(places_s))
        ]
        self.epochs.append(Counter(closed))
        self._open = [pair for pair in self._open if pair not in self.epochs[-1]]
        self.messages.append({"star": 1, "flush": int(flush), "side": 0, "entry": 0})
        if flush:
            self._restart()

    def again(self, kept):
        """Return the same traffic without the messages whose place is not in ``kept``."""
        other = Traffic(
            self.plan.to_json(),
            kind=self.chain.kind,
            cores=self.chain.cores,
            window_r=self.chain.window_r,
            window_s=self.chain.window_s,
        )
        for place, message in enumerate(self.messages):
            side = "rs"[message["side"]]
            if message["star"]:
                other.star(flush=bool(message["flush"]))
            elif place in kept:
                # A tuple keeps its number, as it does on its way through the chain.
                other.ids[side] = message["entry"][side]["id"]
                other.tuple(side, message["entry"][side]["words"])
        return other


class Results:
    """What came out of every output, between one star and the next."""

    def __init__(self, bench, outputs):
        self.outputs = [[Counter()] for _ in outputs]
        for name, epochs in zip(outputs, self.outputs, strict=True):
            bench.monitors[name].add_callback(
                lambda result, epochs=epochs: self._note(result, epochs)
            )

    @staticmethod
    def _note(result, epochs):
        if result["star"]:
            epochs.append(Counter())
        else:
            epochs[-1][result["r_id"], result["s_id"]] += 1

    @property
    def stars(self):
        """How many stars have come from every output."""
        return min(len(epochs) for epochs in self.outputs) - 1

    @property
    def epochs(self):
        """The pairs of all outputs together, the last epoch without its star."""
        longest = max(map(len, self.outputs))
        return [
            sum((epochs[i] for epochs in self.outputs if i < len(epochs)), Counter())
            for i in range(longest)
        ]


def difference(got, expected):
    """Say in words how the pairs of all epochs differ; empty if they do not."""
    due = {pair: star for star, epoch in enumerate(expected) for pair in epoch}
    came = {}
    for star, epoch in enumerate(got):
        for pair in epoch.elements():
            came.setdefault(pair, []).append(star)
    lines = [f"{pair} is missing" for pair in due if pair not in came]
    for pair, stars in came.items():
        if pair not in due:
            lines.append(f"{pair} is no result")
        elif len(stars) > 1:
            lines.append(f"{pair} came {len(stars)} times")
        elif stars[0] > due[pair]:
            lines.append(f"{pair} came behind star {due[pair]}")
        elif stars[0] < due[pair]:
            lines.append(f"{pair} came before star {stars[0]}, not {due[pair]}")
    return "\n".join(lines[:8])
