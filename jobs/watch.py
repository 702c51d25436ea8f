"""spark-submit jobs/watch.py --config FILE ...: equivalent to ``spark-eval watch``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["watch", *sys.argv[1:]])
