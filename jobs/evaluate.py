"""spark-submit jobs/evaluate.py --config FILE ...: equivalent to ``spark-eval evaluate``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["evaluate", *sys.argv[1:]])
