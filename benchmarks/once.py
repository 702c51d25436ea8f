"""One repetition of a contender as a whole process: ``python -m benchmarks.once CONTENDER TASK FOLDER``."""

import sys
from pathlib import Path

from benchmarks.contenders import CONTENDERS
from benchmarks.workload import Task

if __name__ == "__main__":
    name, task, folder = sys.argv[1:]
    CONTENDERS[name].prepare(Task.from_json(task))(Path(folder))
