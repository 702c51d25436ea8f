"""Tables on the driver: frames and paths, columns and types, plain Parquet files, results in a catalog."""

import pandas

from spark_eval.errors import SetupError

if int(pandas.__version__.partition(".")[0]) > 2:
    raise SetupError(
        "UNSUPPORTED_PANDAS",
        f"pandas {pandas.__version__} damages data on its way through Spark; install 'pandas>=2.2.2,<3'",
    )
