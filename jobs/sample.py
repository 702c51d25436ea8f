"""spark-submit jobs/sample.py --config FILE ...: equivalent to ``spark-eval sample``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["sample", *sys.argv[1:]])
