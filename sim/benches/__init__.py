"""cocotb benches of single gateware blocks, compiled with Verilator.

A test calls :func:`sim.benches.run.run_bench` with a component and the name of a bench module.
The module's cocotb tests drive the block through :class:`sim.benches.environment.Bench`.
"""
