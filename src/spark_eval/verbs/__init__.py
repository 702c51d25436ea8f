"""Implementations of the verbs: DataFrames in, DataFrames out; ``runs`` reads and publishes files."""

import pandas

from spark_eval.errors import SetupError

if int(pandas.__version__.partition(".")[0]) > 2:
    raise SetupError(
        "UNSUPPORTED_PANDAS",
        f"pandas {pandas.__version__} damages data on its way through Spark; install 'pandas>=2.2.2,<3'",
    )
