"""Registers behind block memories, moved into them."""

from collections import defaultdict

__all__ = ["use_output_registers"]

# A flip-flop that does nothing but follow its input.
PLAIN = {"CEMUX": "1 ", "CLKMUX": "CLK"}


def use_output_registers(netlist: dict) -> int:
    """Let block memories drive the registers behind them from inside; return how many.

    What leaves an ECP5's block memory comes 5.7 ns after the clock edge, or 0.4 from the register
    at its output. Yosys leaves that one unused and puts flip-flops outside. Where every bit that is
    read goes into such a flip-flop and nowhere else, the two are the same: ``netlist``, as Yosys
    writes it, is changed in place.
    """
    moved = 0
    for module in netlist["modules"].values():
        cells = module["cells"]
        readers = _readers(module)
        for memory in [cell for cell in cells.values() if cell["type"] == "DP16KD"]:
            for ports, clock in _outputs(memory):
                wires = memory["connections"]
                found = {port: readers[wires[port][0]] for port in ports if port in wires}
                found = {port: names for port, names in found.items() if names}
                if not found or not all(
                    len(names) == 1 and names[0] in cells and _follows(cells[names[0]], clock)
                    for names in found.values()
                ):
                    continue
                for port, (name,) in found.items():
                    wires[port] = cells.pop(name)["connections"]["Q"]
                for port in {port[2] for port in ports}:
                    memory["parameters"][f"REGMODE_{port}"] = "OUTREG"
                moved += len(found)
    return moved


def _readers(module: dict) -> dict[object, list[str]]:
    """Return who reads each wire: names of flip-flops that have it as data, or of anything else."""
    readers = defaultdict(list)
    for name, cell in module["cells"].items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "output":
                continue
            data = cell["type"] == "TRELLIS_FF" and port in ("DI", "M")
            for bit in bits:
                readers[bit].append(name if data else f"{name}.{port}")
    for name, port in module["ports"].items():
        for bit in port["bits"]:
            readers[bit].append(f"{name} outside")
    return readers


def _outputs(memory: dict) -> list[tuple[list[str], object]]:
    """Return the read ports of a memory: their outputs, and their clock."""
    wires, parameters = memory["connections"], memory["parameters"]
    halves = {half: [f"DO{half}{bit}" for bit in range(18)] for half in "AB"}
    if int(parameters["DATA_WIDTH_B"], 2) == 36:  # written at one port, read at the other
        halves = {"B": halves["A"] + halves["B"]}
    return [
        (outputs, wires[f"CLK{half}"])
        for half, outputs in halves.items()
        if wires[f"OCE{half}"] == ["1"] and parameters[f"CLK{half}MUX"] == f"CLK{half}"
    ]


def _follows(flip_flop: dict, clock: object) -> bool:
    parameters, wires = flip_flop["parameters"], flip_flop["connections"]
    return (
        all(parameters.get(name) == value for name, value in PLAIN.items())
        and wires["CLK"] == clock
        and wires.get("LSR", ["0"]) == ["0"]
        and parameters.get("REGSET", "RESET") == "RESET"
    )
