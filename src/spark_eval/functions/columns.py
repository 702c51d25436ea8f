"""Column functions: arguments are validated here, and ``arrays`` computes the values on the executors."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pyspark.sql.pandas.functions
from pyspark.sql import Column, SparkSession
from pyspark.sql import types as T

from spark_eval.arrow.codes import to_numpy
from spark_eval.conventions import CONVENTIONS, Conventions, TruthDuplicates
from spark_eval.conventions.presets import parse_conventions
from spark_eval.errors import ConfigError, SetupError
from spark_eval.evaluation.plan import DEFAULT_METRICS, Plan, make_plan
from spark_eval.functions.arrays import RECOMMENDED, RELEVANCE_ARRAY, RELEVANT, SCORE_ARRAY, measured_values
from spark_eval.functions.json_arrays import pandas_function
from spark_eval.kernels.registry import RANKING, RankingMetric
from spark_eval.kernels.values import without_metric

ColumnOrName = Column | str
Rules = Conventions | str | Mapping[str, Any]
# Arguments of every function, for its docstring.
ARGUMENTS: Final = """\
Args:
    recommended: Array of recommended items, best first; the position in the array is the rank.
    relevant: Array of relevant items.
    k: Cutoff, or "all" for the whole list.
    relevances: Array parallel to ``relevant``; default 1 for each item.
    scores: Array parallel to ``recommended``; the items are then ranked by score, highest first.
    conventions: Name of a preset, or a mapping as in ``evaluate``. Further arguments override it."""
RESULT: Final = """\

Returns:
    A column of doubles; null for lists without a value.

Raises:
    ConfigError: An argument is invalid.

Examples:
    >>> from spark_eval import functions as F2
    >>> lists = spark.sql("SELECT array(3, 1, 2) AS recommended, array(1, 4) AS relevant")
    >>> lists.select(F2.{name}("recommended", "relevant", k=3)).dtypes
    [('{column}', 'double')]"""


def measured_functions() -> dict[str, RankingMetric]:
    """Return the metrics that have a function, by their names per user and of their means: ``ap``, ``map``.

    Other metrics need item attributes, which arrays do not have.
    """
    metrics = [one for one in RANKING.values() if not one.knows_items]
    return {name: metric for metric in metrics for name in (metric.name, metric.run_name)}


def own_options(metric: RankingMetric) -> dict[str, str]:
    """Return the conventions that affect a metric, by their names as arguments of its function."""
    return {without_metric(convention, metric): convention for convention in metric.conventions}


def function_of(metric: RankingMetric) -> Callable[..., Column]:
    """Return the function of a metric, with its signature and docstring."""
    signature = signature_of(metric)

    def function(*args: Any, **kwargs: Any) -> Column:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        options = [f"{name}={values[name]}" for name in own_options(metric) if values[name] is not None]
        text = f"{metric.run_name}({', '.join(options)})"
        arrays = {name: values[name] for name in (RECOMMENDED, RELEVANT, RELEVANCE_ARRAY, SCORE_ARRAY)}
        plan = plan_of([text], [values["k"]], values["conventions"])
        return applied(plan, arrays, plan.columns[0], T.DoubleType())

    function.__name__ = function.__qualname__ = metric.name
    function.__module__ = __package__
    choices = [f"    {name}: {' or '.join(CONVENTIONS[own])}." for name, own in own_options(metric).items()]
    result = RESULT.format(name=metric.name, column=plan_of(metric.name, 3, "default").columns[0])
    function.__doc__ = "\n".join([inspect.cleandoc(metric.notes), "", ARGUMENTS, *choices, result])
    vars(function)["__signature__"] = signature
    return function


def signature_of(metric: RankingMetric) -> inspect.Signature:
    """Return the signature of a metric's function, with its conventions as keyword arguments."""
    named, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(inspect.Parameter(name, named, annotation=ColumnOrName) for name in (RECOMMENDED, RELEVANT)),
        inspect.Parameter("k", named, annotation=int | str),
        *(
            inspect.Parameter(name, keyword, default=None, annotation=ColumnOrName | None)
            for name in (RELEVANCE_ARRAY, SCORE_ARRAY)
        ),
        inspect.Parameter("conventions", keyword, default="default", annotation=Rules),
        *(
            inspect.Parameter(name, keyword, default=None, annotation=str | None)
            for name in own_options(metric)
        ),
    ]
    return inspect.Signature(parameters, return_annotation=Column)


def ranking_metrics(
    recommended: ColumnOrName,
    relevant: ColumnOrName,
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    k: Sequence[int | str] | int | str = (1, 5, 10),
    *,
    relevances: ColumnOrName | None = None,
    scores: ColumnOrName | None = None,
    conventions: Rules = "default",
) -> Column:
    """Return a struct of several metrics at several cutoffs, for little more than the cost of one.

    Args:
        recommended: Array of recommended items, best first; the position in the array is the rank.
        relevant: Array of relevant items.
        metrics: Names, optionally with conventions and a cutoff: ``ndcg(gain=exp2)@10``.
        k: Cutoffs of the metrics without a cutoff of their own; "all" for the whole list.
        relevances: Array parallel to ``relevant``; default 1 for each item.
        scores: Array parallel to ``recommended``; the items are then ranked by score, highest first.
        conventions: Name of a preset, or a mapping as in ``evaluate``.

    Returns:
        A struct column; its fields are the metric columns of ``per_user``, such as ``ndcg_at_10``.

    Raises:
        ConfigError: An argument is invalid, as in ``evaluate``.

    Examples:
        >>> from spark_eval import functions as F2
        >>> lists = spark.sql("SELECT array(3, 1, 2) AS recommended, array(1, 4) AS relevant")
        >>> values = F2.ranking_metrics("recommended", "relevant", ["precision", "mrr"], k=2)
        >>> lists.select(values.alias("of")).select("of.*").first()
        Row(precision_at_2=0.5, rr_at_2=0.5)
    """
    plan = plan_of(metrics, k, conventions)
    arrays = {RECOMMENDED: recommended, RELEVANT: relevant, RELEVANCE_ARRAY: relevances, SCORE_ARRAY: scores}
    fields = T.StructType([T.StructField(column, T.DoubleType()) for column in plan.columns])
    return applied(plan, arrays, "ranking_metrics", fields)


def register(spark: SparkSession, conventions: Rules = "default") -> list[str]:
    """Register the functions for SQL, each under its names with the suffix ``_at``; return these names.

    In SQL: ``ndcg_at(recommended, relevant, 10)``, optionally followed by ``relevances`` and ``scores``; NULL
    if not given. The cutoff may also be 'all' or a column. An invalid cutoff ends the query with an error.

    Args:
        spark: The session.
        conventions: Name of a preset, or a mapping as in ``evaluate``, for all functions.

    Returns:
        The names of the registered functions.

    Raises:
        ConfigError: The conventions are invalid.
        SetupError: SPARK_TOO_OLD, on Spark 4.0.

    Examples:
        >>> from spark_eval import functions as F2
        >>> names = F2.register(spark)
        >>> spark.sql("SELECT precision_at(array(3, 1, 2), array(1, 4), 2) AS value").first()
        Row(value=0.5)
    """
    if arrow_udf() is None:
        message = f"functions for SQL need Spark 4.1 or newer; this is {pyspark.__version__}"
        raise SetupError("SPARK_TOO_OLD", f"{message}; functions of columns work with all versions")
    names = []
    for name, metric in measured_functions().items():
        plan_of(metric.name, "all", conventions)
        function = arrow_function(values_by_k(metric, conventions), f"{name}_at", T.DoubleType())
        spark.udf.register(f"{name}_at", function)
        names.append(f"{name}_at")
    return names


def plan_of(texts: Sequence[str] | str, k: Any, conventions: Rules) -> Plan:
    """Validate the arguments as a plan; raise ConfigError, also if more than arrays is needed."""
    rules = parse_conventions(conventions)
    if rules.truth_duplicates is TruthDuplicates.LAST:
        message = "truth_duplicates=last needs timestamps of relevant items, which arrays do not have"
        raise ConfigError("INVALID_CHOICE", f"{message}; choose max, sum or count, or use evaluate")
    plan = make_plan(metrics=texts, k=k, conventions=rules)
    for value in plan.requested:
        if value.metric.knows_items:
            raise ConfigError("UNKNOWN_METRIC", f"{value} needs item attributes; use evaluate instead")
    return plan


def applied(plan: Plan, arrays: Mapping[str, Any], name: str, kind: T.DataType) -> Column:
    """Return the metrics of a plan as a column; raise ConfigError NOT_A_COLUMN."""
    given = {argument: column for argument, column in arrays.items() if column is not None}
    for argument in (RECOMMENDED, RELEVANT, *given):
        if not isinstance(arrays[argument], Column | str):
            what = type(arrays[argument]).__name__
            raise ConfigError("NOT_A_COLUMN", f"{argument} is a {what}; give a column, or its name")
    names = list(given)

    def values(*columns: pa.Array) -> pa.Array:
        measured = measured_values(plan, dict(zip(names, columns, strict=True)))
        arrays = [pa.array(values, from_pandas=True) for values in measured.values()]
        is_one = isinstance(kind, T.DoubleType)
        return arrays[0] if is_one else pa.StructArray.from_arrays(arrays, names=list(measured))

    column: Column = arrow_function(values, name, kind)(*given.values())
    return column.alias(name)


def values_by_k(metric: RankingMetric, conventions: Rules) -> Callable[..., pa.Array]:
    """Return the function of a metric with the cutoff as a column; rows of one cutoff are batched."""

    def values(recommended: pa.Array, relevant: pa.Array, k: pa.Array, *others: pa.Array) -> pa.Array:
        columns = (recommended, relevant, *others)
        arrays = dict(zip((RECOMMENDED, RELEVANT, RELEVANCE_ARRAY, SCORE_ARRAY), columns, strict=False))
        of_row = np.full(len(k), np.nan)
        for cutoff in pc.unique(k).to_pylist():
            plan = plan_of(metric.name, [cutoff], conventions)
            rows = np.flatnonzero(to_numpy(pc.equal(k, cutoff)))
            chosen = {name: column.take(pa.array(rows)) for name, column in arrays.items()}
            of_row[rows] = measured_values(plan, chosen)[plan.columns[0]]
        return pa.array(of_row, from_pandas=True)

    return values


def arrow_function(values: Callable[..., pa.Array], name: str, kind: T.DataType) -> Any:
    """Return a Spark function that passes Arrow batches to ``values``: without pandas, but on Spark 4.0."""
    values.__name__ = name
    make: Any = arrow_udf()  # its type hints do not cover functions of several columns
    return pandas_function(values, kind) if make is None else make(values, kind)


def arrow_udf() -> Any:
    """Return PySpark's ``arrow_udf``; None on Spark 4.0."""
    return getattr(pyspark.sql.pandas.functions, "arrow_udf", None)
