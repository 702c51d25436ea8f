"""spark-submit jobs/linkage.py --config FILE ...: equivalent to ``spark-eval linkage``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["linkage", *sys.argv[1:]])
