"""spark-submit jobs/window.py --config FILE ...: equivalent to ``spark-eval window``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["window", *sys.argv[1:]])
