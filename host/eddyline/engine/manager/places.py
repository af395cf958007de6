"""The workers at their places: what they are told, and who follows one that has ended."""

from collections.abc import Iterator
from contextlib import suppress

from eddyline.engine.manager.crew import Crew
from eddyline.engine.manager.ledger import Batch, Place
from eddyline.engine.manager.link import Gone, Message
from eddyline.engine.manager.mirror import Mirror
from eddyline.engine.manager.outlet import Outlet
from eddyline.errors import DeviceError

__all__ = ["Places"]

# Times that a worker may end over one batch. A batch that kills every worker must not be retried
# for ever.
ATTEMPTS = 5


class Places:
    """Workers that share one join, whichever processes they are.

    Whoever cannot be told something has ended, and is in ``dead`` until it is replaced: whoever
    takes its place stores what it had stored, which the mirror still has, and does again what it
    had not answered.

    Parameters
    ----------
    crew : Crew
        The processes.
    mirror : Mirror
        What they read.
    configuration : Message
        What each is told first.
    outlet : Outlet, optional
        Where they put their results.

    Members
    -------
    dead : set of int
        Places whose workers are known to have ended.
    restarts : int
        How many have been replaced.
    """

    def __init__(
        self, crew: Crew, mirror: Mirror, configuration: Message, outlet: Outlet | None = None
    ):
        self._crew = crew
        self._mirror = mirror
        self._configuration = configuration
        self._outlet = outlet
        self._all = [Place() for _ in range(len(crew))]
        self.dead: set[int] = set()
        self.restarts = 0
        for number in range(len(self)):
            self._configure(number)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Place]:
        return iter(self._all)

    def __getitem__(self, number: int) -> Place:
        return self._all[number]

    def tell(self, number: int, message: Message) -> None:
        """Send a message to a worker, after the whereabouts of what it may have to read."""
        place = self._all[number]
        try:
            for name, array in self._mirror.arrays() if message["do"] in ("join", "load") else ():
                now = (array.segment, array.base)
                known = place.known.get(name)
                if known == now:
                    continue
                where = {"name": name, "base": array.base}
                if known and known[0] == array.segment:
                    self._crew.send(number, {"do": "rebase", **where})
                else:
                    self._crew.send(number, {"do": "share", **where}, array.fd)
                place.known[name] = now
            self._crew.send(number, message)
        except Gone:
            self.dead.add(number)

    def hopeless(self, number: int) -> bool:
        """Say whether a worker ends whenever it is started, with nothing to do."""
        return self._all[number].idle >= ATTEMPTS

    def replace(self, number: int, again: list[Batch]) -> None:
        """Let another worker take the place of one that has ended, and do some batches again.

        Raises
        ------
        DeviceError
            If too many have ended there, one after the other.
        """
        place = self._all[number]
        place.attempts += bool(again)
        place.idle += not again
        if place.attempts > ATTEMPTS or place.idle > 2 * ATTEMPTS:
            what = "over the same batch" if again else "with nothing to do"
            raise DeviceError(f"worker {number} has ended {ATTEMPTS} times {what}")
        self.restarts += 1
        self._crew.replace(number)
        place.known = {}
        place.loading = True
        place.before = place.status.comparisons
        for batch in again:
            batch.pieces.pop(number, None)
        # What it had stored before the first batch that it does again.
        upto = (again[0].order["r"][0], again[0].order["s"][0]) if again else self._mirror.counts
        kept = [side.kept for side in self._mirror.sides]
        self._configure(number)
        self.tell(number, {"do": "load", "r": (kept[0], upto[0]), "s": (kept[1], upto[1])})
        for batch in again:
            self.tell(number, batch.order)

    def _configure(self, number: int) -> None:
        self.tell(number, {**self._configuration, "place": number})
        if self._outlet:
            with suppress(Gone):  # it is found out by what it is told next
                self._crew.send(number, {"do": "outlet"}, self._outlet.giving)
