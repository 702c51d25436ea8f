"""spark-submit jobs/compare.py --config FILE ...: equivalent to ``spark-eval compare``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["compare", *sys.argv[1:]])
