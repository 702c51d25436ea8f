"""The program in a process that kills itself and its JVM at a call to a store amid publication.

``python -m tests.stores.dying N VERB …``: the N-th call after publication began.
"""

import os
import signal
import sys
from typing import Any

from tests.stores.attempts import CALLS

from spark_eval.cli.commands import main
from spark_eval.publishing.attempt import Attempt
from spark_eval.runtime.hadoop_files import HadoopFiles

left: list[int] = []


def counting(call: Any) -> Any:
    """Return the call, which dies when its turn has come."""

    def counted(*arguments: Any) -> Any:
        if left:
            left.append(left.pop() - 1)
            if not left[0]:
                os.killpg(os.getpgid(0), signal.SIGKILL)
        return call(*arguments)

    return counted


def beginning(publish: Any, n_calls: int) -> Any:
    """Return ``publish``, which begins to count."""

    def begun(*arguments: Any) -> Any:
        left.append(n_calls)
        return publish(*arguments)

    return begun


if __name__ == "__main__":
    for name in CALLS:
        setattr(HadoopFiles, name, counting(getattr(HadoopFiles, name)))
    Attempt.publish = beginning(Attempt.publish, int(sys.argv[1]))  # type: ignore[method-assign]
    main(sys.argv[2:])
