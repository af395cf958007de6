"""Devices are opened by name, with options, and every mistake says what would be right."""

import subprocess
import sys
from typing import Literal

import pytest

from eddyline.cli.main import main
from eddyline.device import discovery
from eddyline.device.discovery import Kind, open_device
from eddyline.errors import DeviceError, MachineError


class FakeDevice:
    """A device that only remembers its options."""

    name = "fake"

    def __init__(
        self,
        *,
        cores: int = 16,
        window: int | None = None,
        chain: Literal["lockstep", "asynchronous"] = "lockstep",
        admission: Literal["wait", "drop_new", "drop_results"] | None = None,
        trace: str | None = None,
    ):
        if cores % 2:
            raise ValueError(f"{cores} cores cannot be paired: use 2, 4, 6 and so on")
        self.options = (cores, window, chain, admission, trace)


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    kind = Kind(__name__, "FakeDevice", "remembers its options")
    monkeypatch.setitem(discovery.DEVICES, "fake:walking", kind)
    monkeypatch.setitem(discovery.DEVICES, "fake:standing", kind)


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("fake:walking", (16, None, "lockstep", None, None)),
        ("fake:standing?", (16, None, "lockstep", None, None)),
        ("fake:walking?cores=4&window=1048576", (4, 1048576, "lockstep", None, None)),
        (
            "fake:walking?cores=2&window=1024&chain=asynchronous&admission=drop_new",
            (2, 1024, "asynchronous", "drop_new", None),
        ),
    ],
)
def test_options_have_the_types_of_the_constructor(spec, options):
    assert open_device(spec).options == options


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("borad", "no device called 'borad' (known: auto, cpu, reference, "),
        ("", "no device called ''"),
        ("auto:fast", "no device called 'auto:fast' (known: auto, cpu"),
        ("fake", "device 'fake' needs a variant (known: fake:walking, fake:standing)"),
        ("fake:", "device 'fake' needs a variant (known: fake:walking, fake:standing)"),
        (
            "fake:flying?cores=4",
            "device 'fake' has no variant 'flying' (known: fake:walking, fake:standing)",
        ),
        ("cpu:fast", "device 'cpu' has no variants: write 'cpu' for 'cpu:fast'"),
        (
            "fake:walking?core=4",
            "'fake:walking' has no option 'core' (it takes: cores, window, chain, admission)",
        ),
        ("fake:walking?trace=out", "has no option 'trace' (it takes: cores, "),
        ("reference?threads=1", "device 'reference' has no option 'threads' (it takes: none)"),
        ("fake:walking?cores=0", "device option cores='0' is not a number from 1 up"),
        ("fake:walking?cores=-4", "device option cores='-4' is not a number from 1 up"),
        ("fake:walking?cores=4.5", "device option cores='4.5' is not a number from 1 up"),
        ("fake:walking?cores", "device option cores='' is not a number from 1 up"),
        ("fake:walking?cores=٤", "device option cores='٤' is not a number from 1 up"),
        ("fake:walking?window=1000000000", "is not a number from 1 up (to 999999999)"),
        (
            "fake:walking?chain=ring",
            "device option chain='ring' is not one of: lockstep, asynchronous",
        ),
        (
            "fake:walking?admission=Wait",
            "device option admission='Wait' is not one of: wait, drop_new, drop_results",
        ),
        (
            "fake:walking?cores=4&window=8&cores=6",
            "device option cores is given twice, as 4 and as 6: leave one",
        ),
        ("fake:walking?cores=3", "device 'fake:walking': 3 cores cannot be paired: use 2, 4, 6"),
    ],
)
def test_a_mistake_says_what_would_be_right(spec, message):
    with pytest.raises(DeviceError) as raised:
        open_device(spec)
    assert message in str(raised.value)


def test_auto_takes_the_first_that_is_here(monkeypatch):
    assert open_device("auto").name == "cpu"
    assert open_device("auto?threads=1").threads == 1
    for name in list(discovery.DEVICES):
        assert discovery.automatic() == name
        monkeypatch.setitem(discovery.DEVICES, name, Kind("eddyline.no_such", "No", ""))
    assert discovery.automatic() is None
    with pytest.raises(DeviceError, match="no device called 'auto'"):
        open_device("auto")


def test_the_cpu_comes_before_everything_slow():
    assert list(discovery.DEVICES)[:2] == ["cpu", "reference"]


def test_a_device_whose_packages_are_missing(monkeypatch):
    monkeypatch.setitem(discovery.DEVICES, "fake:walking", Kind("eddyline.no_such", "No", ""))
    with pytest.raises(MachineError, match="'fake:walking' is not available here: No module named"):
        open_device("fake:walking")


def test_options_and_defaults_are_listed(capsys):
    assert main(["devices"]) == 0
    said = capsys.readouterr().out
    _, _, after = said.partition("fake:walking")
    lines = [line.strip() for line in after.splitlines()]
    assert lines[:5] == [
        "ready         remembers its options",
        "cores=NUMBER (default: 16)",
        "window=NUMBER (default: chosen by the device)",
        "chain=lockstep|asynchronous (default: lockstep)",
        "admission=wait|drop_new|drop_results (default: chosen by the device)",
    ]
    assert "trace" not in said


@pytest.mark.parametrize("module", ["eddyline.cli.main", "eddyline.device.discovery"])
def test_nothing_heavy_is_imported_for_a_list_of_names(module):
    heavy = "{'numba', 'amaranth', 'pyspark', 'pyopencl', 'cocotb'}"
    code = f"import sys, {module}; sys.exit(repr({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr.strip() == "set()"


def test_help_is_printed_without_anything_heavy():
    code = (
        "import sys, atexit, eddyline.cli.main as m\n"
        "atexit.register(lambda: print({'numba', 'amaranth'} & set(sys.modules)))\n"
        "m.main(['devices', '--help'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("set()\n")
    assert "Options follow a device's name" in ran.stdout
