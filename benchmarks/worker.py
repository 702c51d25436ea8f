"""Process of one contender: prepare it, then run one repetition for each line on stdin.

A line has the output folder; the answer is one line of JSON on stdout. The parent process measures.
"""

import json
import os
import sys
from pathlib import Path
from time import perf_counter

from benchmarks.contenders import CONTENDERS, PROFILE
from benchmarks.workload import Task


def main() -> None:
    """Answer until stdin ends."""
    name, task = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries and the JVM must not mix with the answers

    def answer(**facts: object) -> None:
        answers.write(json.dumps(facts) + "\n")

    known = CONTENDERS | {PROFILE.name: PROFILE}
    try:
        repeat = known[name].prepare(Task.from_json(task))
        answer(ready=True)
        for line in sys.stdin:
            start = perf_counter()
            means = repeat(Path(line.rstrip("\n")))
            answer(wall=perf_counter() - start, means=means)
    except Exception as error:
        answer(error=f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}")
        raise


if __name__ == "__main__":
    main()
