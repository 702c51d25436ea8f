"""spark-submit jobs/predictions.py --config FILE ...: equivalent to ``spark-eval predictions``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["predictions", *sys.argv[1:]])
