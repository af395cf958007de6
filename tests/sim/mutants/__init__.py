"""Designs that are wrong on purpose, one small change each: every bench has to notice its own."""

from tests.sim.mutants import handshake, splitjoin, splitjoin_parts, stream
from tests.sim.mutants.mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS = [
    *stream.MUTANTS,
    *handshake.MUTANTS,
    *splitjoin_parts.MUTANTS,
    *splitjoin.MUTANTS,
]
