"""What is told of metrics of predictions."""

import pytest

from spark_eval.cli import metric_tables
from spark_eval.errors import ConfigError


def test_a_metric_of_predictions_alone_of_both_and_of_neither() -> None:
    alone = metric_tables.metric_text("log_loss")
    assert alone.startswith("log_loss, of predictions (binary, multiclass)")
    assert "mean of -ln" in alone
    both = metric_tables.metric_text("auc")
    assert both.startswith("auc, mean over users: gauc")
    assert "auc, of predictions (binary)" in both
    assert "of predictions" not in metric_tables.metric_text("ndcg")
    with pytest.raises(ConfigError, match="UNKNOWN_METRIC"):
        metric_tables.metric_text("logless")
