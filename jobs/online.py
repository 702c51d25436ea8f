"""spark-submit jobs/online.py --config FILE ...: equivalent to ``spark-eval online``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["online", *sys.argv[1:]])
