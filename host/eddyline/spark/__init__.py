"""Stream joins on Spark: ``stream_join(r, s, on=…, window=…, time=…)``.

The only part of the package that imports pyspark.
"""

from eddyline.spark.join import join_with, stream_join
from eddyline.spark.scaling import Scaling
from eddyline.spark.session import session

__all__ = ["Scaling", "join_with", "session", "stream_join"]
