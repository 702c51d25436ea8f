"""spark-submit jobs/calibrate.py --config FILE ...: equivalent to ``spark-eval calibrate``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["calibrate", *sys.argv[1:]])
