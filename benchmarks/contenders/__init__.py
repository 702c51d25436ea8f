"""Who takes part. A contender is a module with ``prepare(task)``, which returns one repetition to be called.

A repetition reads both tables, writes what the contender gives of each user as Parquet below the folder it
is given, and returns the means over users, if the contender gives any, as ``{"ndcg@10": value}``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks.workload import LISTS, Task

Means = Mapping[str, float]
Repetition = Callable[[Path], Means | None]


@dataclass(frozen=True)
class Contender:
    """One way to do the work.

    ``needs`` are the libraries that must be there beside spark-eval's own. ``kinds`` are the workloads it
    can do. ``ap`` is what its average precision divides by, ``population`` whose mean it gives: ``truth``
    are all users with truth, ``both`` those who also have a list. Where we do the same work in several
    ways, ``against`` names the contender of ours that it is compared with.
    """

    name: str
    does: str
    module: str
    function: str = "prepare"
    needs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("ranked", "folds")
    per_user: bool = False
    ap: str = "min_relevant_k"
    population: str = "truth"
    against: str = ""

    @property
    def missing(self) -> list[str]:
        """The libraries that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]

    def prepare(self, task: Task) -> Repetition:
        """Import what it needs, start its session."""
        prepared: Repetition = getattr(import_module(f"benchmarks.contenders.{self.module}"), self.function)(
            task
        )
        return prepared


SPLIT: Final = "split"
PREDICTIONS: Final = "predictions"
COMPARE: Final = "compare"
BEYOND: Final = "beyond"
CONTENDERS: Final = {
    contender.name: contender
    for contender in (
        Contender("ours", "spark_eval.evaluate on frames", "ours", "frames", kinds=LISTS, per_user=True),
        Contender(
            "ours-cli",
            "the verb evaluate, published",
            "ours",
            "published",
            kinds=LISTS,
            per_user=True,
        ),
        Contender("floor-scan", "i: scan both tables", "floors", "scan", kinds=LISTS),
        Contender(
            "floor-shuffle", "ii: scan, shuffle both by user", "floors", "shuffle", kinds=(*LISTS, BEYOND)
        ),
        Contender("hits-only", "iii: the least plan, without ledger or checks", "hits_only", per_user=True),
        Contender("ranking-evaluator", "Spark's RankingEvaluator, a call per number", "ranking_evaluator"),
        Contender(
            "recommenders",
            "Microsoft recommenders on Spark",
            "recommenders_on_spark",
            needs=("recommenders",),
            population="both",
        ),
        Contender("replay-spark", "RePlay on Spark", "replay_offline", "on_spark", needs=("replay",)),
        Contender("replay-polars", "RePlay on Polars", "replay_offline", "on_polars", needs=("replay",)),
        Contender(
            "apply-in-pandas",
            "naive: groupBy(user).applyInPandas",
            "grouped",
            "apply_in_pandas",
            per_user=True,
        ),
        Contender("cogroup", "cogroup(user).applyInPandas", "grouped", "cogroup", per_user=True),
        Contender("rectools", "RecTools", "rectools_metrics", needs=("rectools",), ap="relevant"),
        Contender("ranx", "ranx", "ranx_metrics", needs=("ranx",), per_user=True, ap="relevant"),
        Contender("duckdb", "DuckDB by hand", "duckdb_by_hand", needs=("duckdb",), per_user=True),
        Contender("polars", "Polars by hand", "polars_by_hand", needs=("polars",), per_user=True),
        Contender("split", "the verb split, published", "splits", "published", kinds=(SPLIT,)),
        Contender(
            "constant-column", "the log written by a constant column", "splits", "constant", kinds=(SPLIT,)
        ),
        *(
            Contender(name, does, "predictions", function, needs=needs, kinds=(PREDICTIONS,))
            for name, does, function, needs in (
                ("predictions", "evaluate_predictions", "ours", ()),
                ("scores-shuffled", "the rows shuffled by score", "floor", ()),
                ("evaluators", "Spark's evaluators, a call per number", "evaluators", ()),
                ("scikit-learn", "scikit-learn on one node", "scikit_learn", ("sklearn",)),
                ("duckdb-predictions", "DuckDB by hand", "duckdb_by_hand", ("duckdb",)),
            )
        ),
        *(
            Contender(name, does, "comparisons", function, needs=needs, kinds=(COMPARE,))
            for name, does, function, needs in (
                ("compare", "t and sign of two models, from files by bucket", "ours", ()),
                ("compare-frames", "compare of a frame, by one exchange", "frames", ()),
                ("columns-summed", "Spark's sum of every column", "floor", ()),
                ("pair-in-pandas", "naive: a join, applyInPandas of the pair", "apply_in_pandas", ()),
                ("scipy", "scipy on pandas, one node", "scipy_on_pandas", ()),
                ("ranx-compare", "ranx's tests on one node, t alone", "ranx_compare", ("ranx",)),
            )
        ),
        *(
            Contender(name, does, "beyond", function, needs=needs, kinds=(BEYOND,), against=against)
            for name, does, function, needs, against in (
                ("as-rectools", "evaluate, preset rectools", "as_rectools", (), "as-rectools"),
                ("rectools-beyond", "RecTools", "rectools", ("rectools",), "as-rectools"),
                (
                    "as-recommenders",
                    "evaluate, preset recommenders",
                    "as_recommenders",
                    (),
                    "as-recommenders",
                ),
                (
                    "recommenders-beyond",
                    "recommenders on Spark",
                    "recommenders",
                    ("recommenders",),
                    "as-recommenders",
                ),
                ("as-replay", "evaluate, preset replay", "as_replay", (), "as-replay"),
                ("replay-beyond", "RePlay on Spark", "replay", ("replay",), "as-replay"),
            )
        ),
    )
}
PROFILE: Final = Contender("profile", "our path, cut off after each step", "steps", kinds=LISTS)
