"""Ranking metrics as functions of array columns, for pipelines that already have lists.

``from spark_eval import functions as F2``, then ``df.select(F2.ndcg("recommended", "relevant", k=10))``.
Each metric has one function, under its name per user and the name of its mean: ``ap`` and ``map`` are the
same. ``ranking_metrics`` computes several metrics at the least cost; ``register`` registers all for SQL.

Values are bit for bit as in ``per_user`` of ``evaluate``. They are null if ``evaluate`` excludes the user
from the mean, or if the metric is undefined:

- Items are integers or strings, of one type in both arrays. A null array counts as an empty one.
- A recommended item that is null does not count, but occupies its rank. A relevant item does not count if it
  is null, or if its relevance is null or not finite.
- A repeated item of a list counts once, at its best rank; later items do not move up.
- With scores, items whose score is null or not finite do not count, and a repeated item has its best score;
  then the list is ranked. Among equal scores the larger item comes first (convention ``ties``).
- A repeated relevant item has the largest of its relevances (``truth_duplicates``).
- A relevance above 0 is relevant (``threshold``); a negative one is an error (``negative_relevance``).
- A list without relevant items has no value (``no_truth``); one without recommended items has the value 0
  (``no_recommendations``).

Invalid arguments raise ConfigError before any job starts; invalid arrays end the query with a DataError.
On Spark 4.0 arrays are passed as text, which costs more; ``register`` needs Spark 4.1 or newer.
"""

from spark_eval.functions.columns import function_of, measured_functions, ranking_metrics, register

__all__ = ["ranking_metrics", "register", *sorted(measured_functions())]

# The signatures for editors and type checkers are in __init__.pyi; a test compares them.
_of_metric = {metric.name: function_of(metric) for metric in measured_functions().values()}
globals().update({name: _of_metric[metric.name] for name, metric in measured_functions().items()})
