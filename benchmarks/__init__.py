"""Benchmarks of spark-eval, peers and lower bounds (floors); see README.md."""

import compileall
import os
from pathlib import Path

# Programs find modules compiled, as pip installs them: those of this tree, too.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=1)
