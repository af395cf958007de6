"""Counters of corner cases: a bench that never met one has shown nothing about it."""

__all__ = ["Coverage"]


class Coverage:
    """Count how often named corner cases were met.

    Parameters
    ----------
    *points : str
        The corner cases. Anything else is a typing mistake and raises.
    """

    def __init__(self, *points):
        self.hits = dict.fromkeys(points, 0)

    def hit(self, point, when=True):
        """Count ``point`` if ``when`` is true."""
        self.hits[point] += bool(when)

    def check(self):
        """Fail unless every corner case was met at least once."""
        missed = [point for point, hits in self.hits.items() if not hits]
        assert not missed, f"corner cases never met: {', '.join(missed)}; met: {self.hits}"
