"""Run every benchmark, or those named: ``python -m bench nested_loop gate``."""

import importlib
import sys

BENCHMARKS = [
    "nested_loop",
    "engines",
    "start",
    "spark",
    "spark_plain",
    "spark_streams",
    "biclique",
    "models",
    "gate",
    "encode",
    "simulator",
    "handshake_cycles",
    "handshake_twin",
    "workers",
    "deaths",
    "memory",
]

for name in sys.argv[1:] or BENCHMARKS:
    module = importlib.import_module(f"bench.{name}")
    print(f"{name}: {module.__doc__.splitlines()[0]}")
    for line in module.measure():
        print(f"  {line}", flush=True)
