"""Ranking metrics as functions of array columns, for pipelines that have lists already.

``from spark_eval import functions as F2``, then ``df.select(F2.ndcg("recommended", "relevant", k=10))``.
There is a function per metric, by its name per user and by that of its mean: ``ap`` and ``map`` are one.
Several metrics cost least in one call, ``ranking_metrics``; ``register`` makes all known to SQL.

A value is that of ``per_user`` in ``evaluate``, to the last bit. It is null where ``evaluate`` leaves the
user out of the mean, or finds no value:

- Items are integers or strings, alike in both arrays. A null array counts as an empty one.
- A recommended item that is null does not count, and keeps its place. A relevant item that is null, or whose
  relevance is null or not finite, does not count.
- An item that the list repeats counts once, at its best rank; later items do not move up.
- With scores, items whose score is null or not finite do not count, and a repeated item keeps its best score;
  then the list is ranked. Of equal scores the larger item goes first (convention ``ties``).
- A relevant item that is repeated has the largest of its relevances (``truth_duplicates``).
- A relevance above 0 is relevant (``threshold``); a negative one is refused (``negative_relevance``).
- A list without a relevant item has no value (``no_truth``); one without a recommended item has the value 0
  (``no_recommendations``).

Wrong arguments raise ConfigError before any job; wrong arrays end the query with a DataError. Spark 4.1 or
newer is needed.
"""

from spark_eval.functions.columns import function_of, measured_functions, ranking_metrics, register

__all__ = ["ranking_metrics", "register", *sorted(measured_functions())]

# Their signatures, for editors and type checkers, stand in __init__.pyi, which a test compares.
_of_metric = {metric.name: function_of(metric) for metric in measured_functions().values()}
globals().update({name: _of_metric[metric.name] for name, metric in measured_functions().items()})
