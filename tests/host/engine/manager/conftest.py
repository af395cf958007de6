"""Worker processes that one test after the other uses: starting some takes longer than a join."""

from collections.abc import Callable, Iterator

import pytest

from eddyline.engine.manager import Crew


@pytest.fixture(scope="session")
def hired() -> Iterator[Callable[[int], Crew]]:
    """Return a function that gives so many workers."""
    crews: dict[int, Crew] = {}

    def hire(count: int) -> Crew:
        if count not in crews:
            crews[count] = Crew(count)
        return crews[count]

    yield hire
    for crew in crews.values():
        crew.close()
