"""Every block of gateware as compiled RTL, under its cocotb bench."""

import pytest

from tests.sim import blocks


@pytest.mark.parametrize("ways", [3, 8])
def test_arbiter(ways):
    blocks.arbiter(ways).run()


def test_mailbox():
    blocks.mailbox(5).run()


@pytest.mark.parametrize(("depth", "memory"), [(4, "lutram"), (5, "bram")])
def test_fifo(depth, memory):
    blocks.fifo(depth, memory=memory).run()


def test_buffer():
    blocks.buffer().run()


def test_queue_between_clocks():
    blocks.crossing().run()


@pytest.mark.parametrize(("flight", "lag"), [(0, 0), (3, 2)])
def test_queue_of_tickets(flight, lag):
    blocks.ticket_queue(flight=flight, lag=lag).run()


@pytest.mark.parametrize(("ways", "stars"), [(3, False), (8, True)])
def test_merger(ways, stars):
    blocks.merger(ways, stars=stars).run()


@pytest.mark.parametrize(
    ("inputs", "fan_in", "depth", "bound"),
    [(4, 2, 2, 2 * 2), (5, 3, 2, 2 * 3), (6, 4, 5, 2 * 3), (9, 8, 2, 2 * 5)],
)
def test_merge_tree(inputs, fan_in, depth, bound):
    blocks.merge_tree(inputs, fan_in=fan_in, depth=depth, bound=bound).run()


@pytest.mark.parametrize(("outputs", "fan_out"), [(3, 4), (5, 2)])
def test_broadcast_tree(outputs, fan_out):
    blocks.broadcast_tree(outputs, fan_out=fan_out).run()


@pytest.mark.parametrize(
    ("kind", "slots", "lanes"), [("shift", 5, 2), ("lutram", 7, 2), ("bram", 8, 2)]
)
def test_window(kind, slots, lanes):
    blocks.window(kind, slots=slots, lanes=lanes).run()


@pytest.mark.parametrize(("memory", "skip_sent"), [("lutram", False), ("bram", True)])
def test_window_with_acknowledgements(memory, skip_sent):
    blocks.held_window(memory=memory, skip_sent=skip_sent).run()


@pytest.mark.parametrize("window", ["shift", "lutram"])
def test_core(window):
    blocks.core(window=window).run()


def test_lockstep_chain():
    blocks.lockstep_chain().run()


@pytest.mark.parametrize("stalls", [False, True])
def test_asynchronous_chain(stalls):
    blocks.async_chain(stalls=stalls).run()


@pytest.mark.parametrize("chain", ["lockstep", "asynchronous"])
def test_operator(chain):
    blocks.operator(chain).run()


@pytest.mark.parametrize("chain", ["lockstep", "asynchronous"])
def test_admission(chain):
    blocks.admission(chain).run()
