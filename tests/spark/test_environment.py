"""What must not be there."""

import importlib

import pandas
import pytest

import spark_eval.verbs
from spark_eval.errors import EnvironmentFault


def test_pandas_3_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pandas, "__version__", "3.0.1")
    with pytest.raises(EnvironmentFault, match="UNSUPPORTED_PANDAS"):
        importlib.reload(spark_eval.verbs)
    monkeypatch.undo()
    importlib.reload(spark_eval.verbs)
