"""The queries of the BiStream paper, as ``stream_join``s, and the same in SQL for whole tables.

Lines and orders are streams; suppliers, customers, nations and regions are tables, which Spark
joins with a stream itself. Sums follow on top, batch by batch (see ``view.py``).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eddyline.spark import stream_join

__all__ = ["BAND", "EXAMPLE", "Q5", "Q7", "band", "example", "q5", "q7"]

REVENUE = "l_extendedprice * (1 - l_discount) AS revenue"

# Section 3.4: SELECT ONLINE R.a2, sum(S.b2) … WITHIN 10 minutes GROUP BY R.a2
EXAMPLE = """
SELECT r.a2, sum(s.b2) FROM r, s
WHERE r.a1 > s.b1 AND abs(epoch_us(r.ts) - epoch_us(s.ts)) <= 600000000 GROUP BY r.a2
"""


def example(r: DataFrame, s: DataFrame) -> DataFrame:
    """Return what the example query of section 3.4 sums up: both streams have watermarks."""
    return stream_join(
        r, s, "r.a1 > s.b1", window="time:10m", time="ts", select="r.a2, s.b2", units=2
    )


Q5 = """
SELECT n_name, sum(l_extendedprice * (1 - l_discount))
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
  AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
  AND r_name = 'ASIA' GROUP BY n_name
"""


def q5(tables: dict[str, DataFrame]) -> DataFrame:
    """Return lines of a year's orders whose customer and supplier are of one nation in Asia."""
    asia = tables["nation"].join(
        tables["region"].filter("r_name = 'ASIA'"), F.expr("n_regionkey = r_regionkey")
    )
    customers = tables["customer"].join(asia, F.expr("c_nationkey = n_nationkey"))
    year = tables["orders"].filter("year(o_orderdate) = 1994")
    orders = year.join(customers, F.expr("o_custkey = c_custkey"))
    lines = tables["lineitem"].join(tables["supplier"], F.expr("l_suppkey = s_suppkey"))
    return stream_join(
        orders.select("o_orderkey", "c_nationkey", "n_name"),
        lines.selectExpr("l_orderkey", "s_nationkey", REVENUE),
        "r.o_orderkey = s.l_orderkey AND r.c_nationkey = s.s_nationkey",
        window="unbounded", select="r.n_name, s.revenue", units=2,
    )  # fmt: skip


Q7 = """
SELECT n1.n_name, n2.n_name, year(l_shipdate), sum(l_extendedprice * (1 - l_discount))
FROM supplier, lineitem, orders, customer, nation n1, nation n2
WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
  AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
  AND ((n1.n_name = '{0}' AND n2.n_name = '{1}') OR (n1.n_name = '{1}' AND n2.n_name = '{0}'))
  AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31' GROUP BY ALL
"""


def q7(tables: dict[str, DataFrame], one: str, other: str) -> DataFrame:
    """Return lines that one of two nations shipped to the other in two years."""
    nation = tables["nation"].select("n_nationkey", "n_name")
    customers = tables["customer"].join(nation, F.expr("c_nationkey = n_nationkey"))
    suppliers = tables["supplier"].join(nation, F.expr("s_nationkey = n_nationkey"))
    orders = tables["orders"].join(customers, F.expr("o_custkey = c_custkey"))
    lines = tables["lineitem"].join(suppliers, F.expr("l_suppkey = s_suppkey"))
    lines = lines.filter("l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'")
    return stream_join(
        orders.select("o_orderkey", F.col("n_name").alias("customer")),
        lines.selectExpr(
            "l_orderkey", "n_name AS supplier", "year(l_shipdate) AS year", REVENUE
        ),
        f"r.o_orderkey = s.l_orderkey AND ((s.supplier = '{one}' AND r.customer = '{other}') "
        f"OR (s.supplier = '{other}' AND r.customer = '{one}'))",
        window="unbounded", select="s.supplier, r.customer, s.year, s.revenue", units=2,
    )  # fmt: skip


BAND = """
SELECT n_name, count(*), min(l2.l_extendedprice), max(l2.l_extendedprice)
FROM lineitem l1, lineitem l2, supplier, nation
WHERE abs(l1.l_orderkey - l2.l_orderkey) <= 1 AND l1.l_shipmode = 'TRUCK'
  AND l2.l_shipinstruct = 'NONE' AND l1.l_quantity > 48
  AND l1.l_suppkey = s_suppkey AND s_nationkey = n_nationkey GROUP BY n_name
"""


def band(tables: dict[str, DataFrame]) -> DataFrame:
    """Return lines beside lines of the same order or a neighbour: the paper's band join."""
    nation = tables["supplier"].join(tables["nation"], F.expr("s_nationkey = n_nationkey"))
    lines = tables["lineitem"].join(nation, F.expr("l_suppkey = s_suppkey"))
    return stream_join(
        lines.select("l_orderkey", "l_shipmode", "l_quantity", "n_name"),
        tables["lineitem"].select("l_orderkey", "l_shipinstruct", "l_extendedprice"),
        "abs(r.l_orderkey - s.l_orderkey) <= 1 AND r.l_shipmode = 'TRUCK' "
        "AND s.l_shipinstruct = 'NONE' AND r.l_quantity > 48",
        window="unbounded", select="r.n_name, s.l_extendedprice", units=2,
    )  # fmt: skip
