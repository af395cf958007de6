"""Eddyline itself: the cpu device on encoded tuples, and the whole of ``eddyline.join``."""

import numpy as np
import pyarrow as pa

import eddyline
from bench.peers.participant import Job
from bench.peers.workloads import Workload
from eddyline.device import Tuples
from eddyline.device.cpu import CpuDevice
from eddyline.dictionary import Dictionary
from eddyline.encode import SideEncoder
from eddyline.engine.choice import choose
from eddyline.query import Query

__all__ = ["Device", "Ranges", "Whole"]

BATCH = 1 << 16


def query_of(work: Workload) -> Query:
    window = eddyline.rows(work.window)
    return Query(work.r.schema, work.s.schema, work.on, window, window)


class Device:
    """The cpu device: from the words of Arrow columns to pairs of row numbers, batch by batch."""

    def __init__(self, *, batch: int = BATCH, threads: int = 1, engine: str = "auto"):
        self.batch, self.threads, self.engine = batch, threads, engine
        self.name = f"eddyline device, batches of {batch}"
        if threads > 1:
            self.name += f", {threads} threads"

    def prepare(self, work: Workload) -> Job:
        plan = query_of(work).plan
        batches = list(encoded(work, self.batch))

        def run() -> pa.Table:
            found: list[tuple[np.ndarray, np.ndarray]] = []
            with CpuDevice(threads=self.threads, engine=self.engine) as device:  # type: ignore[arg-type]
                device.configure(plan)
                for batch in batches:
                    device.push(batch)
                    while not (results := device.pull()).nothing:
                        found.append((results.r_id, results.s_id))
                device.flush()
            columns = [
                pa.chunked_array([one[i] for one in found] or [np.empty(0, np.uint32)])
                for i in (0, 1)
            ]
            return pa.Table.from_arrays(columns, names=["i", "j"])

        return Job(run)

    def plan(self, work: Workload) -> str:
        return choose(query_of(work).plan, self.engine).engine


class Ranges(Device):
    """The same, but results stay index ranges: they are found, counted and not expanded."""

    def __init__(self, *, batch: int = BATCH):
        super().__init__(batch=batch)
        self.name = f"eddyline ranges, batches of {batch}"

    def prepare(self, work: Workload) -> Job:
        plan = query_of(work).plan
        batches = list(encoded(work, self.batch))

        def run() -> pa.Table:
            engine = choose(plan, "bisort").open(plan)
            records = 0
            for batch in batches:
                engine.push(batch)
                records += engine.ranges()[1]  # type: ignore[attr-defined]
            engine.close()
            return pa.table({"records": np.broadcast_to(np.uint8(0), records)})

        return Job(run)


class Whole:
    """``eddyline.join``: from Arrow tables to an Arrow table, with order of arrival and rows."""

    name = "eddyline.join"

    def prepare(self, work: Workload) -> Job:
        def run() -> pa.Table:
            return eddyline.join(
                work.r, work.s, on=work.on, window=eddyline.rows(work.window),
                select="r.seq AS i, s.seq AS j", device="cpu?threads=1",
            ).read_all()  # fmt: skip

        return Job(run)

    def plan(self, work: Workload) -> str:
        return choose(query_of(work).plan).engine


def encoded(work: Workload, batch: int) -> list[Tuples]:
    """Return a workload's tuples as a device gets them, in alternating order."""
    query = query_of(work)
    dictionary = Dictionary()
    records = []
    for side, table in (("r", work.r), ("s", work.s)):
        encoder = SideEncoder(query.lowering.side(side), dictionary, side=side)
        whole = table.combine_chunks().to_batches()[0]
        records.append(encoder.encode(whole))
    sides = np.tile(np.array([0, 1], np.uint8), work.rows)
    tuples = []
    for begin in range(0, work.tuples, batch):
        end = min(begin + batch, work.tuples)
        r = records[0][(begin + 1) // 2 : (end + 1) // 2]
        s = records[1][begin // 2 : end // 2]
        tuples.append(Tuples(sides[begin:end], r, s))
    return tuples
