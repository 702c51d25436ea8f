"""The plan ``shuffle``: Spark joins recommendations and truth, whatever their size."""

from contextlib import ExitStack
from typing import Final

from spark_eval import journal
from spark_eval.ledger import list_entries, rows_in, truth_entries
from spark_eval.plan import Plan
from spark_eval.transforms.account import count_lists, count_truth
from spark_eval.transforms.folds import set_down
from spark_eval.transforms.inputs import quoted
from spark_eval.transforms.match import match
from spark_eval.transforms.measure import measure
from spark_eval.transforms.populate import populate
from spark_eval.transforms.rank import rank
from spark_eval.transforms.segments import add_segments
from spark_eval.transforms.truth import distinct_truth, per_user_truth, relevant
from spark_eval.verbs.by_fold import check_models
from spark_eval.verbs.checks import check_tables, truth_faults
from spark_eval.verbs.evaluation import Evaluation, Tables, written
from spark_eval.verbs.segments import read_about, spread

# Truth of up to so many rows goes whole to every executor, at some 100 bytes a row; Spark sorts more.
BROADCAST_ROWS: Final = 2_000_000


def evaluate_by_shuffle(tables: Tables, plan: Plan, reason: str, folder: str | None) -> Evaluation:
    """Every input is read once: what later steps share is small and kept.

    Raises one DataError for all that is wrong with truth and lists.
    """
    conventions = plan.conventions
    with ExitStack() as kept:
        segment_values, training = read_about(tables, plan.segments, BROADCAST_ROWS, kept)
        distinct = distinct_truth(tables.truth, conventions).persist()
        kept.callback(distinct.unpersist)
        truth_counts = [row.asDict() for row in count_truth(distinct, training.items).collect()]
        entries = [*training.entries, *truth_entries(truth_counts)]
        used, of_truth = truth_faults(entries, truth_counts, plan)
        journal.stage("truth", rows_in(entries, "truth"), then="lists")

        known = spread(relevant(distinct), used["distinct"], BROADCAST_ROWS)
        sees_places, held_cuts = plan.held_cuts is not None, plan.held_cuts or ()
        ranked = rank(tables.recommendations, conventions.ties, plan.checks, plan.sees_ties, sees_places)
        lists = match(ranked, known, plan.depth, plan.cuts, training.items, held_cuts).persist()
        kept.callback(lists.unpersist)
        by_user = per_user_truth(distinct, plan.truth_depth)
        counts = [row.asDict() for row in count_lists(lists, by_user, plan.cuts).collect()]
        entries += list_entries(counts, used["users"], conventions)
        check_tables(tables, entries, counts, plan, of_truth)
        journal.stage("lists", rows_in(entries, "recommendations"), then="per_user")
        if plan.by_fold:
            check_models(lists, by_user)

        models = sorted(count["model"] for count in counts)
        population = populate(lists, by_user, models, conventions)
        if plan.segments:
            population = add_segments(
                population, plan.segments, segment_values, training.users, training.bounds
            )
        if plan.by_fold:
            population = set_down(population)
        kept_columns = [quoted(name) for name in plan.segments]
        per_user = measure(population, plan.metrics, conventions, plan.truth_depth, kept_columns, held_cuts)
        keys = None
        if folder is not None:
            per_user, keys = written(per_user, folder)
            journal.stage("per_user", then="metrics")
        return Evaluation(per_user, entries, models, plan, kept.pop_all(), reason, keys=keys)
