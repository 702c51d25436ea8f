"""The program in a process that kills itself and its JVM at a call, as kill -9 does.

``python -m tests.stores.dying METHOD:N VERB …``: before the N-th call of a method of ``DEADLY``. Of an
application of YARN only the first attempt dies.
"""

import os
import signal
import sys
from typing import Any, Final

from spark_eval.cli.commands import main
from spark_eval.runs.job import Job
from spark_eval.runtime.hadoop_files import HadoopFiles

# A record or intent is written by the first `write_new`; of renames the first makes the intent, the next ones
# move tables, the last makes the record; `remove` then clears away the attempt.
DEADLY: Final[dict[str, type]] = {
    "read": Job,
    "write_new": HadoopFiles,
    "rename": HadoopFiles,
    "remove": HadoopFiles,
}


def is_first_attempt() -> bool:
    """True outside YARN, too: ``CONTAINER_ID`` ends with the numbers of attempt and container."""
    return os.environ.get("CONTAINER_ID", "_01_").split("_")[-2] == "01"


def deadly(call: Any, n_calls: int) -> Any:
    """Return the call, which dies instead of its last turn."""
    left = [n_calls]

    def counted(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            os.killpg(os.getpgid(0), signal.SIGKILL)
        return call(*arguments, **named)

    return counted


if __name__ == "__main__":
    name, _, number = sys.argv[1].partition(":")
    if is_first_attempt():
        setattr(DEADLY[name], name, deadly(getattr(DEADLY[name], name), int(number)))
    main(sys.argv[2:])
