"""spark-submit jobs/report.py --config FILE ...: equivalent to ``spark-eval report``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["report", *sys.argv[1:]])
