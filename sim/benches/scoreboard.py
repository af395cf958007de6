"""Comparison of what comes out with what has to."""

from collections import deque

from cocotb_bus import scoreboard

__all__ = ["Scoreboard"]


class Scoreboard(scoreboard.Scoreboard):
    """A cocotb-bus scoreboard that says in one line what went wrong, and knows merged streams."""

    def __init__(self, dut):
        super().__init__(dut)
        self._queues = []

    @property
    def remaining(self):
        """How many expected payloads have not come out yet."""
        return sum(map(len, self.expected.values())) + sum(map(len, self._queues))

    def add_interface(self, monitor, expected_output, **options):
        """Expect a queue in order, and nothing after it."""

        def check(got):
            assert expected_output, f"{monitor.name}: got {got!r}, expected nothing more"
            exp = expected_output.popleft()
            assert got == exp, f"{monitor.name}: got {got!r}, expected {exp!r}"

        super().add_interface(monitor, expected_output, compare_fn=check, **options)

    def add_merged(self, monitor, queues, is_star=lambda payload: False):
        """Expect several queues, each in order, in any interleaving.

        A payload that ``is_star`` stands for the stars at the heads of all queues together.
        """
        queues = [deque(queue) for queue in queues]
        self._queues += queues

        def check(got):
            heads = [queue[0] if queue else None for queue in queues]
            if is_star(got):
                early = [head for head in heads if head is None or not is_star(head)]
                assert not early, f"{monitor.name}: a star overtook {early[0]!r}"
                takers = queues
            else:
                takers = [queue for queue in queues if queue and queue[0] == got][:1]
                assert takers, f"{monitor.name}: got {got!r}, expected one of {heads!r}"
            for queue in takers:
                queue.popleft()

        monitor.add_callback(check)

    def add_rounds(self, monitor, rounds, *, optional=lambda payload: False):
        """Expect round after round: queues, each in order, in any interleaving, and then a star.

        A round is the list of its queues, and the star, or none. A payload that is ``optional`` may
        be missing, in a round with a star.
        """
        rounds = deque(
            ([*map(deque, queues)], deque([star] if star else [])) for queues, star in rounds
        )
        for queues, star in rounds:
            self._queues += [*queues, star]

        def reach(queue):
            """Return the first payloads, up to one that has to come."""
            for number, payload in enumerate(queue):
                if not optional(payload):
                    return list(queue)[: number + 1]
            return list(queue)

        def check(got):
            while rounds and not any((*rounds[0][0], rounds[0][1])):
                rounds.popleft()
            assert rounds, f"{monitor.name}: got {got!r}, expected nothing more"
            queues, star = rounds[0]
            if star and got == star[0]:
                left = [payload for queue in queues for payload in queue if not optional(payload)]
                assert not left, f"{monitor.name}: a star overtook {left[0]!r}"
                for queue in (*queues, star):
                    queue.clear()
                return
            for queue in queues:
                if got in (near := reach(queue)):
                    for _ in range(near.index(got) + 1):
                        queue.popleft()
                    return
            heads = [queue[0] for queue in (*queues, star) if queue]
            raise AssertionError(f"{monitor.name}: got {got!r}, expected one of {heads!r}")

        monitor.add_callback(check)

    def check(self):
        """Fail if anything expected has not come out."""
        missing = [queue[0] for queue in (*self.expected.values(), *self._queues) if queue]
        assert not missing, f"{self.remaining} payloads never came out, the first is {missing[0]!r}"
