"""Join-biclique (BiStream): units that each store a share of both streams.

A row is stored by one unit and shown to every unit that may store a partner of it. A pair is found
where the earlier of its two rows is stored. Nothing here knows Spark.
"""
