"""What is told of metrics of predictions."""

import pytest

from spark_eval import describe
from spark_eval.errors import ConfigError


def test_a_metric_of_predictions_alone_of_both_and_of_neither() -> None:
    alone = describe.metric_text("log_loss")
    assert alone.startswith("log_loss, of predictions (binary, multiclass)")
    assert "mean of -ln" in alone
    both = describe.metric_text("auc")
    assert both.startswith("auc, mean over users: gauc")
    assert "auc, of predictions (binary)" in both
    assert "of predictions" not in describe.metric_text("ndcg")
    with pytest.raises(ConfigError, match="UNKNOWN_METRIC"):
        describe.metric_text("logless")
