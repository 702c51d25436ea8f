"""``spark-eval init``: a first config from the tables themselves."""

from spark_eval.cli.init.first_config import command

__all__ = ["command"]
