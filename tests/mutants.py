"""Break the code in one place at a time, and see that some test fails: ``make mutants``.

Each mutant is a fault that someone could make: a sign, a bound, a count that is forgotten, a check that is
left out. A mutant that no test kills is a test that is missing. ``make mutants ARGS="splits linkage"`` takes
those of some packages.
"""
# ruff: noqa: E501

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[1]
SOURCE: Final = REPOSITORY / "src" / "spark_eval"
# Tests of the default ring.
DEFAULT: Final = (
    "not slow and not cluster and not setup and not parity and not airflow and not browser "
    "and not stores and not exhaustive and not spark"
)
# Longest run of the tests of a mutant, in seconds: one that never ends is found, too.
LONGEST: Final = 900


class Mutant(NamedTuple):
    """A change of a file of the package, and the tests that see it: files and folders of ``tests``."""

    path: str
    before: str
    after: str
    tests: str

    @property
    def is_current(self) -> bool:
        """True if the code still has what is changed, once."""
        return (SOURCE / self.path).read_text(encoding="utf-8").count(self.before) == 1

    def __str__(self) -> str:
        return f"{self.path}: {self.before.strip()} -> {self.after.strip()}"


MUTANTS: Final = (
    # Kernels
    Mutant("kernels/binary.py", "divide(lists.n_hits(k), lists.filled(k))", "divide(lists.n_hits(k), lists.n_ranks(k))", "kernels"),
    Mutant("kernels/binary.py", "case RecallDenominator.MIN_RELEVANT_K:\n            return divide(lists.n_hits(k), lists.fillable(k))", "case RecallDenominator.MIN_RELEVANT_K:\n            return divide(lists.n_hits(k), lists.n_relevant)", "kernels"),
    Mutant("kernels/binary.py", "(lists.n_hits(k) > 0)", "(lists.n_hits(None) > 0)", "kernels"),
    Mutant("kernels/binary.py", "at_hits = hits.number / hits.rank", "at_hits = 1 / hits.rank", "kernels"),
    Mutant("kernels/binary.py", 'side="right")', 'side="left")', "kernels"),
    Mutant("kernels/binary.py", "(lists.hits.number == 1) / lists.hits.rank, k", "(lists.hits.number == 1) / lists.hits.rank, None", "kernels"),
    Mutant("kernels/binary.py", "(hits.rank <= lists.n_relevant[hits.row])", "(hits.rank < lists.n_relevant[hits.row])", "kernels"),
    Mutant("kernels/graded.py", "return total / (last - first + 1)", "return total / (last - first)", "kernels"),
    Mutant("kernels/graded.py", "np.maximum(n_ranks[hits.row] - hits.rank + 1, 0)", "np.maximum(n_ranks[hits.row] - hits.rank, 0)", "kernels"),
    Mutant("kernels/graded.py", "np.minimum(share, 1.0), np.inf", "share, np.inf", "kernels"),
    Mutant("kernels/discounts.py", "math.log2(rank + 1)", "math.log2(rank + 2)", "kernels"),
    Mutant("kernels/discounts.py", "math.expm1(grade * LN2) if abs(grade) < LEAST_POWER else math.exp2(grade) - 1", "math.exp2(grade) - 1", "kernels"),
    Mutant("kernels/pairwise.py", "- h * (h + 1) / 2", "- h * (h - 1) / 2", "kernels"),
    Mutant("kernels/pairwise.py", "two_classes = (h > 0) & (misses > 0)", "two_classes = h > 0", "kernels"),
    # Statistics
    Mutant("statistics/intervals.py", "/ (n - 1) / n)", "/ n / n)", "statistics"),
    Mutant("statistics/intervals.py", "root |= root * root * below != above", "root |= False", "statistics"),
    Mutant("statistics/exact.py", "limbs[0] += limbs[-1] >> LIMB_BITS", "limbs[0] += 0", "statistics"),
    Mutant("statistics/significance.py", "(1, \"greater\") if estimate.value < 0 else (-1, \"less\")", "(-1, \"less\") if estimate.value < 0 else (1, \"greater\")", "statistics"),
    Mutant("statistics/significance.py", "np.maximum.accumulate(ascending * np.arange(len(ascending), 0, -1))", "ascending * np.arange(len(ascending), 0, -1)", "statistics"),
    Mutant("statistics/significance.py", "np.minimum.accumulate(shares[::-1])[::-1]", "shares", "statistics"),
    Mutant("statistics/additive.py", "one.metadata.get(ADD, usual)", "usual", "statistics users evaluation"),
    # Judges of rows
    Mutant("arrow/row_faults.py", "pc.less(rows[RANK], 1)", "pc.less(rows[RANK], 0)", "evaluation sources"),
    Mutant("arrow/row_faults.py", "pc.greater_equal(relevance, conventions.threshold)", "pc.greater(relevance, conventions.threshold)", "evaluation"),
    Mutant("arrow/row_faults.py", "Fault.RELEVANCE_NOT_FINITE: fill_null_with_false(pc.invert(pc.is_finite(relevance)))", "Fault.RELEVANCE_NOT_FINITE: fill_null_with_false(pc.is_nan(relevance))", "evaluation"),
    Mutant("arrow/row_faults.py", "for code, (_, rows) in reversed(list(enumerate(faults))):", "for code, (_, rows) in enumerate(faults):", "evaluation arrow"),
    Mutant("experiments/worker/judge.py", "is_read & ~(np.abs(numbers) <= plan.largest_value)", "is_read & (np.abs(numbers) > plan.largest_value)", "experiments"),
    Mutant("experiments/worker/judge.py", "pc.and_(pc.greater_equal(column, given[0]), pc.less_equal(column, given[1]))", "pc.and_(pc.greater_equal(column, given[0]), pc.less(column, given[1]))", "experiments"),
    # Accounting
    Mutant("accounting.py", "if n_rows != accounted[table]:", "if n_rows < accounted[table]:", "test_ledger.py evaluation splits"),
    Mutant("accounting.py", "(Reason.NO_HITS, count.without_hits, conventions.no_hits is NoHits.DROP)", "(Reason.NO_HITS, count.without_hits, False)", "evaluation"),
    Mutant("runners/quarantine.py", "if n_bad > share * n_rows[source, model]:", "if n_bad > share * sum(n_rows.values()):", "predictions"),
    # Comparison and gates
    Mutant("comparison/gates.py", "allowed = -share if baseline is not None and baseline < 0 else share", "allowed = share", "comparison"),
    Mutant("comparison/decisions.py", "return Decision.NOT_WORSE if low >= 0 else Decision.UNDECIDED", "return Decision.NOT_WORSE if high >= 0 else Decision.UNDECIDED", "comparison"),
    Mutant("comparison/decisions.py", "{Decision.WORSE, Decision.UNDECIDED}", "{Decision.WORSE}", "comparison verbs"),
    Mutant("comparison/decisions.py", "self.common < gate.min_common", "self.common <= 0", "comparison"),
    # Experiments
    Mutant("experiments/kinds.py", "of_y = units if self.is_mean else moments", "of_y = moments", "experiments"),
    Mutant("experiments/kinds.py", "np.minimum(events, 1)", "events", "experiments"),
    Mutant("experiments/inference.py", "variance += weight**2 * share * (1 - share) * units", "variance += weight * share * (1 - share) * units", "experiments"),
    Mutant("experiments/worker/units.py", "np.where(lowest == highest, highest, CROSSOVER)", "highest", "experiments"),
    # Slices, repeats, calibration
    Mutant("comparison/slices/gates.py", "n_both / max(n_baseline + n_candidate - n_both, 1)", "1.0", "comparison"),
    Mutant("comparison/slices/tested.py", "(-len(one.cell), size(one), one.cell)", "(len(one.cell), size(one), one.cell)", "comparison"),
    Mutant("comparison/slices/tested.py", "return 0.0 if sign * estimate.value < 0 else 1.0", "return 0.0", "comparison"),
    Mutant("comparison/slices/tested.py", "estimate.value * (inside.weight / whole.weight)", "estimate.value", "comparison"),
    Mutant("comparison/repeats.py", "if ours != theirs:", "if len(ours) != len(theirs):", "comparison"),
    Mutant("comparison/repeats.py", "if is_recipe and other:", "if other:", "comparison"),
    Mutant("statistics/repeats.py", "(n_users - 1) * (n_repeats - 1)) / self.weight**2", "n_users * (n_repeats - 1)) / self.weight**2", "statistics evaluation"),
    Mutant("statistics/repeats.py", "return self.squares - 2 * mean * self.products + mean", "return self.squares - mean * self.products + mean", "statistics evaluation"),
    Mutant("evaluation/repeats.py", "Fraction(row.n_defined) if weight is None else weight", "Fraction(row.n_users) if weight is None else weight", "evaluation"),
    Mutant("statistics/true_effects.py", "math.sqrt(max(self.y_spread**2 - weight * covariance, 0.0))", "self.y_spread", "calibration"),
    Mutant("calibration/fit.py", "shared + points.covariance", "shared", "calibration"),
    Mutant("calibration/fit.py", "> top - ALIKE", "> top", "calibration"),
    Mutant("calibration/effects.py", "return Effect(sign * difference, error,", "return Effect(difference, error,", "calibration"),
    Mutant("calibration/effects.py", "if not 1 / MOST <= error <= MOST:", "if not 0 <= error <= MOST:", "calibration"),
    # Evaluation
    Mutant("evaluation/summaries.py", "totals[one.model] = (totals[one.model] + one.digest) % 2**64", "totals[one.model] = one.digest", "evaluation comparison"),
    Mutant("evaluation/summaries.py", "by_model[one.model] = one.counts if known is None else known + one.counts", "by_model[one.model] = one.counts", "evaluation"),
    Mutant("evaluation/summaries.py", "return str(sum(one.truth_digest for one in self.buckets) % 2**64)", "return str(self.buckets[0].truth_digest)", "evaluation comparison"),
    # Splits
    Mutant("splits/rules/moments.py", "return at < cut if self is Boundary.EXCLUSIVE else at <= cut", "return at <= cut", "splits"),
    Mutant("splits/worker/labels.py", "faults[~rows_with_ids(batch)] = FAULTS.index(Fault.NULL_ID)", "pass", "splits"),
    Mutant("splits/facts.py", "return {key: max(ends[key] for ends", "return {key: min(ends[key] for ends", "splits"),
    # Linkage and predictions
    Mutant("linkage/estimates.py", "(1 - Fraction(n, one.n_pairs))", "1", "linkage"),
    Mutant("linkage/estimates.py", "if chance == 1:", "if chance == 0:", "linkage"),
    Mutant("predictions/classes.py", "ratio(2 * at.tp, 2 * at.tp + at.fp + at.fn)", "ratio(at.tp, at.tp + at.fp + at.fn)", "predictions"),
    Mutant("predictions/classes.py", "{\"class\": str(name)}, right, predicted - right, labels - right", "{\"class\": str(name)}, right, predicted, labels - right", "predictions"),
    # Days
    Mutant("monitoring/watch.py", "(newest.day - point.day).days >= plan.days", "(newest.day - point.day).days > plan.days", "monitoring"),
    Mutant("monitoring/watch.py", "cusum - sign * found.u - ALLOWANCE", "cusum + sign * found.u - ALLOWANCE", "monitoring"),
    # Publication
    Mutant("publishing/local.py", "elif not wrote(staging, goal):", "else:", "faults publishing verbs"),
    Mutant("publishing/local.py", "(folder / INTENT).unlink()\n            self.files.remove(staging.folder)", "self.files.remove(staging.folder)\n            (folder / INTENT).unlink()", "faults publishing verbs"),
    Mutant("publishing/attempt.py", "if n_found != n_rows or", "if n_found < n_rows or", "faults publishing verbs"),
    Mutant("publishing/attempt.py", "and damage_of(self.store.files, self.record) is None", "", "faults publishing verbs"),
    Mutant("publishing/verify.py", "not least <= low <= high <= most", "not least <= low", "publishing faults evaluation"),
    Mutant("publishing/verify.py", "keys += sum(", "keys = sum(", "publishing faults evaluation"),
    Mutant("publishing/verify.py", "if group is not None and group.has_null_count and group.null_count:", "if False:", "publishing faults evaluation"),
    Mutant("publishing/verify.py", "-math.inf if value.metric.lower is None else value.metric.lower", "-math.inf", "publishing faults evaluation"),
    Mutant("publishing/verify.py", "if keys != self.keys:", "if self.keys and keys % 2 != self.keys % 2:", "publishing faults evaluation"),
    Mutant("publishing/attempt.py", "(table in SHARED and len(files) != 1)", "False", "faults publishing verbs"),
    Mutant("publishing/attempt.py", "if other.work == self.staging.work:", "if False:", "faults publishing verbs"),
    Mutant("publishing/attempt.py", "if existing:\n            self.store.check_swap(staging)", "", "faults publishing verbs"),
    Mutant("runtime/local_files.py", "    sync(draft)\n", "", "faults runtime publishing"),
    Mutant("runtime/local_files.py", "if root is not None and root / REPORT not in target.parents:", "if root is not None:", "runtime results"),
    Mutant("runtime/local_files.py", "if folder.is_symlink():", "if False:", "faults runtime publishing"),
    Mutant("runtime/local_files.py", "return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or is_stdout(path)", "return is_stdout(path)", "faults runtime cli"),
    Mutant("runtime/local_files.py", 'return name.startswith(".") or (name.startswith("_") and "=" not in name)', 'return name.startswith((".", "_"))', "faults runtime sources"),
    Mutant("runtime/local_files.py", "os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)", "os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)", "faults runtime publishing"),
)  # fmt: skip


def is_killed(mutant: Mutant, tree: Path) -> bool:
    """Return True if a test fails with a mutant in a copy of the repository."""
    path = tree / "src" / "spark_eval" / mutant.path
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace(mutant.before, mutant.after), encoding="utf-8")
    folders = [f"tests/{name}" for name in mutant.tests.split()]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-xq",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-m",
        DEFAULT,
        *folders,
    ]
    paths = os.pathsep.join(map(str, (tree / "src", tree)))
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(whole, encoding="utf-8")
    if done.returncode not in (0, 1, 2):
        sys.exit(f"{mutant}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.returncode != 0


def main(packages: list[str]) -> None:
    """Print what becomes of each mutant; exit with 1 if one survives."""
    chosen = [
        one for one in MUTANTS if not packages or one.path.split("/")[0].removesuffix(".py") in packages
    ]
    survivors = list[Mutant]()
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name, "tree")
        shutil.copytree(
            REPOSITORY, tree, ignore=shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".rings", "dist")
        )
        for mutant in chosen:
            start = time.monotonic()
            is_dead = is_killed(mutant, tree)
            survivors += [] if is_dead else [mutant]
            print(
                f"{'killed  ' if is_dead else 'SURVIVED'} {time.monotonic() - start:4.0f} s  {mutant}",
                flush=True,
            )
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants are killed")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main(sys.argv[1:])
