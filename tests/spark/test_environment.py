"""What must not be there: a pandas that is too new, archives on the workers' path."""

import gc
import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

import pandas
import pyspark
import pytest
from pyspark.sql import SparkSession

import spark_eval.verbs
from spark_eval import daemon
from spark_eval.errors import EnvironmentFault


def test_pandas_3_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pandas, "__version__", "3.0.1")
    with pytest.raises(EnvironmentFault, match="UNSUPPORTED_PANDAS"):
        importlib.reload(spark_eval.verbs)
    monkeypatch.undo()
    importlib.reload(spark_eval.verbs)


def test_archives_of_an_installed_pyspark_are_told_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    own = [str(package / "python" / "lib" / "pyspark.zip"), str(package / "jars" / "spark-core.jar")]
    others = ["", "/opt/spark/python/lib/pyspark.zip", str(tmp_path / "mine.zip"), str(package.parent)]
    monkeypatch.setattr(sys, "path", own + others)
    assert daemon.archives() == own
    # Without the files these archives are all there is.
    (package / "__init__.py").unlink()
    assert daemon.archives() == []


@pytest.mark.skipif(sys.platform != "linux", reason="the daemon of our own is for Linux")
def test_workers_read_no_archives_and_search_nothing_loaded_for_garbage(spark: SparkSession) -> None:
    def told(_: Iterable[int]) -> list[tuple[list[str], str, int]]:
        return [(sys.path, pyspark.__file__, gc.get_freeze_count())]

    [(path, package, n_frozen)] = spark.sparkContext.parallelize([0], 1).mapPartitions(told).collect()
    assert package == pyspark.__file__
    assert not [entry for entry in path if entry.endswith((".jar", "pyspark.zip"))]
    assert n_frozen > 10_000
