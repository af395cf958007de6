import pytest

from eddyline.device.sim_splitjoin import SplitJoinDevice
from tests.host.splitjoin.running import CORES


@pytest.fixture
def device():
    with SplitJoinDevice(cores=CORES, window=8, comparators=2) as one:
        yield one
