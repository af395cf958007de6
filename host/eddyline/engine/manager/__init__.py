"""A manager and worker processes that share one join (PanJoin, section III-A; ScaleJoin).

The manager collects arrivals in batches, decides which worker stores which tuple, sends each batch
to the workers that it concerns, and puts their results together. Tuples and results lie in memory
that the processes share; only small messages travel.
"""

from eddyline.engine.manager.crew import Crew
from eddyline.engine.manager.ledger import Status
from eddyline.engine.manager.managed import ManagedJoin
from eddyline.engine.manager.outlet import Consumer, Outlet
from eddyline.engine.manager.sharing import Sharing, SubwindowSharing, TupleSharing

__all__ = [
    "Consumer",
    "Crew",
    "ManagedJoin",
    "Outlet",
    "Sharing",
    "Status",
    "SubwindowSharing",
    "TupleSharing",
]
