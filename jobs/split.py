"""spark-submit jobs/split.py --config FILE ...: equivalent to ``spark-eval split``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["split", *sys.argv[1:]])
