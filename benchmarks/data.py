"""Synthetic lists, truth, logs and predictions, reproducible by seed: Zipf items, skewed users."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spark_eval.arrow.codes import bucket_of, hashes_of
from spark_eval.arrow.user_files import file_name

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DEFAULT_FOLDER: Final = Path(tempfile.gettempdir()) / "spark-eval-benchmarks"
FORMAT: Final = 2  # part of the folder's name: raise it when the same spec gives other rows
USERS_PER_FILE: Final = 50_000
FEWEST_FILES: Final = 4
# Share of users with a list who have no truth, and of users with truth but without a list.
WITHOUT_TRUTH: Final = 0.03
WITHOUT_LIST: Final = 0.02
# Share of the truth that is drawn from the user's own list, mostly from its top: these are the hits.
IN_LIST: Final = 0.12
# Relevant items of a user: 1 + a lognormal number, 5.8 on average, at most MOST_RELEVANT.
TRUTH_LOG_MEAN: Final = 1.23
MOST_RELEVANT: Final = 2_000
GRADES: Final = np.arange(1.0, 6.0)
GRADE_SHARES: Final = np.array([0.4, 0.25, 0.15, 0.12, 0.08])
# The two models in tables of users, and the number of users per bucket.
MEASURED: Final = ("before", "candidate")
USERS_PER_BUCKET: Final = 15_000
TIED_SCORES: Final = 20  # number of distinct scores if scores tie
LOG_BEGINS: Final = 1_672_531_200  # 2023-01-01
LOG_SECONDS: Final = 2 * 365 * 86_400
# Maximum number of training interactions of a user, none of them in the list. Features, three per item.
TRAINED: Final = 10
FEATURES: Final = 20
# Orders of the rows of recommendations: list by list, by rank, random, by item, by a hash of the item, and
# every other row of a list in another file.
TOGETHER: Final = "together"
LAYOUTS: Final = (TOGETHER, "by_rank", "anywhere", "by_item", "by_hash", "halves")
# Length of the lists of those users who have long ones.
LONG: Final = 1_000


@dataclass(frozen=True)
class Dataset:
    """Specification of synthetic tables; by default recommendations and truth.

    ``ids`` are ``int`` or ``string``. Lists have ranks, or scores if ``scored``; with ``ties`` there are few
    distinct scores. ``graded`` truth has a column relevance, 1 to 5. ``repeats`` is the share of duplicate
    rows in both tables. Several ``models`` add a column model, ``folds`` a column fold to both tables; each
    user is in one fold. ``layout`` is one of LAYOUTS.

    The share ``long`` of the users has lists of LONG items.

    ``holds`` selects the tables. ``log``: ``interactions`` by time, with ``length`` rows per user on average.
    ``predictions``: as many labels, one in nine positive, with probabilities. ``users``: ``per_user`` tables
    of two models as ``evaluate`` writes them. ``facts``: lists, truth, ``train``, ``items`` with features.
    """

    users: int
    length: int
    ids: str = "int"
    scored: bool = False
    ties: bool = False
    graded: bool = False
    models: int = 1
    repeats: float = 0.0
    holds: str = "lists"
    layout: str = TOGETHER
    folds: int = 0
    long: float = 0.0
    seed: int = 20231

    @property
    def items(self) -> int:
        """Size of the catalogue; it grows with the users, but slower."""
        return max(20 * self.length, int(40 * self.users**0.6))

    @property
    def name(self) -> str:
        """Name of the folder, unique for the specification."""
        digest = hashlib.sha256(json.dumps([FORMAT, asdict(self)]).encode()).hexdigest()
        layout = "" if self.layout == TOGETHER else f"-{self.layout}"
        return f"{self.users}x{self.length}{layout}-{digest[:8]}"


SIZES: Final = {
    "smoke": Dataset(users=400, length=50),
    "S": Dataset(users=20_000, length=50),
    "M": Dataset(users=200_000, length=50),
    "2M": Dataset(users=400_000, length=50),
    "L": Dataset(users=1_000_000, length=100),
}


def ensure(dataset: Dataset, folder: Path) -> Path:
    """Return the folder with the tables, each a folder of files; write them unless they exist."""
    goal = folder / dataset.name
    if goal.exists():
        return goal
    folder.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix="being-written-", dir=folder))
    n_files = max(FEWEST_FILES, -(-dataset.users // USERS_PER_FILE))
    # Users are in random order, the rows of one list together, as a recommender writes them.
    users = np.random.default_rng(dataset.seed).permutation(dataset.users).astype(np.int64) + 1
    if dataset.holds == "users":
        write_measured(dataset, users, staged)
    else:
        write_rows(dataset, users, n_files, staged)
    if dataset.holds == "facts":
        write_items(dataset, staged / "items")
    if dataset.layout != TOGETHER:
        scatter(dataset, staged / "recommendations")
    try:
        staged.rename(goal)
    except OSError:  # another process was faster
        shutil.rmtree(staged)
    return goal


def write_rows(dataset: Dataset, users: Ints, n_files: int, staged: Path) -> None:
    """Write lists and truth, a log, or predictions; each table in ``n_files`` files."""
    make = {"lists": tables, "facts": with_train, "log": log, "predictions": predictions}[dataset.holds]
    for number, part in enumerate(np.array_split(users, n_files)):
        for name, table in make(dataset, part, np.random.default_rng([dataset.seed, number])):
            (staged / name).mkdir(exist_ok=True)
            pq.write_table(table, staged / name / f"part-{number:04}.parquet", compression="snappy")


def scatter(dataset: Dataset, folder: Path) -> None:
    """Rewrite the files with all rows in the order of the layout."""
    files, rows = sorted(folder.iterdir()), pq.read_table(folder)
    match dataset.layout:
        case "by_rank":
            order = ("score", "descending") if dataset.scored else ("rank", "ascending")
            indices = pc.sort_indices(rows, sort_keys=[order]).to_numpy()
        case "by_item":
            indices = pc.sort_indices(rows, sort_keys=[("item", "ascending")]).to_numpy()
        case "by_hash":
            hashes = hashes_of(rows["item"].combine_chunks())
            indices = np.argsort(hashes, kind="stable")
        case "halves":
            indices = np.argsort(np.arange(len(rows)) % 2, kind="stable")
        case _:
            indices = np.random.default_rng(dataset.seed).permutation(len(rows))
    for file, part in zip(files, np.array_split(indices, len(files)), strict=True):
        pq.write_table(rows.take(pa.array(part)), file, compression="snappy")


def tables(dataset: Dataset, users: Ints, random: np.random.Generator) -> Iterator[tuple[str, pa.Table]]:
    """Yield recommendations and truth of some users."""
    if dataset.long:
        parts = np.split(users, [round(dataset.long * len(users))])
        specs = (replace(dataset, long=0.0, length=LONG), replace(dataset, long=0.0))
        of_parts = [dict(tables(*given, random)) for given in zip(specs, parts, strict=True)]
        yield from ((name, pa.concat_tables([part[name] for part in of_parts])) for name in of_parts[0])
        return
    lists = [draw_lists(dataset, len(users), random) for _ in range(dataset.models)]
    models = [
        recommendations(dataset, users, items, f"model_{number}", random)
        for number, items in enumerate(lists)
    ]
    yield "recommendations", pa.concat_tables(models)
    yield "truth", truth(dataset, users, lists[0], random)


def with_train(dataset: Dataset, users: Ints, random: np.random.Generator) -> Iterator[tuple[str, pa.Table]]:
    """Yield recommendations, truth and training interactions of some users."""
    step = dataset.items + 1
    made = dict(tables(dataset, users, random))
    listed = made["recommendations"]["user"].to_numpy() * step + made["recommendations"]["item"].to_numpy()
    drawn = users[:, None] * step + zipf(dataset.items, (len(users), TRAINED), random)
    user, item = np.divmod(np.setdiff1d(drawn, listed), step)
    yield from {**made, "train": pa.table({"user": user, "item": item})}.items()


def write_items(dataset: Dataset, folder: Path) -> None:
    """The catalogue, with features of each item."""
    folder.mkdir()
    items = np.arange(1, dataset.items + 1)
    words = np.random.default_rng(dataset.seed).permuted(
        np.tile(np.arange(FEATURES), (len(items), 1)), axis=1
    )
    features = [[f"word {word}" for word in row] for row in words[:, :3].tolist()]
    pq.write_table(pa.table({"item": items, "features": features}), folder / "part-0000.parquet")


def log(dataset: Dataset, users: Ints, random: np.random.Generator) -> Iterator[tuple[str, pa.Table]]:
    """Interactions of some users: few of most, many of some."""
    activity = random.lognormal(0.0, 1.0, len(users))
    n_rows = dataset.length * len(users)
    rows = {
        "user": as_ids(dataset, "user", random.choice(users, n_rows, p=activity / activity.sum())),
        "item": as_ids(dataset, "item", zipf(dataset.items, (n_rows,), random)),
    }
    times = LOG_BEGINS + np.sort(random.integers(0, LOG_SECONDS, n_rows))
    rows["timestamp"] = pa.array(times * 1_000_000, pa.timestamp("us", "UTC"))
    rows["rating"] = pa.array(random.choice(GRADES, n_rows, p=GRADE_SHARES))
    yield "interactions", pa.table(rows)


def predictions(dataset: Dataset, users: Ints, random: np.random.Generator) -> Iterator[tuple[str, pa.Table]]:
    """Yield labels and the probabilities of a roughly calibrated model, rounded to 32-bit floats."""
    rate = random.beta(1, 8, dataset.length * len(users))
    noise = np.exp(random.normal(0.0, 0.3, len(rate)))
    # Libraries clip near 0 and 1 at different probabilities.
    score = np.clip(rate * noise, 1e-6, 1 - 1e-6).astype(np.float32).astype(np.float64)
    label = (random.random(len(rate)) < rate).astype(np.int32)
    yield "predictions", pa.table({"label": pa.array(label), "score": pa.array(score)})


def write_measured(dataset: Dataset, users: Ints, staged: Path) -> None:
    """Write ``per_user`` of each model, one file per bucket of users."""
    n_buckets = max(FEWEST_FILES, dataset.users // USERS_PER_BUCKET)
    buckets = bucket_of(hashes_of(pa.array(users)), n_buckets)
    for model in MEASURED:
        random = np.random.default_rng([dataset.seed, len(model)])
        for bucket in range(n_buckets):
            own = np.sort(users[buckets == bucket])
            columns = {"user": own, "n_relevant": np.ones_like(own), "n_recommended": np.ones_like(own)}
            folder = staged / "per_user" / f"model={model}"
            folder.mkdir(parents=True, exist_ok=True)
            table = pa.table(columns | measured_values(len(own), random))
            pq.write_table(table, folder / file_name(bucket, n_buckets))


def measured_values(n: int, random: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return six metrics at five cutoffs, from few hits at random ranks."""
    columns: dict[str, NDArray[Any]] = {}
    for k in (1, 5, 10, 20, 50):
        hits = random.binomial(k, 0.1, n)
        some = np.where(hits > 0, random.random(n), 0.0)
        columns |= {f"precision_at_{k}": hits / k, f"recall_at_{k}": np.minimum(hits / 5, 1.0)}
        columns |= {f"ap_at_{k}": some / 2, f"ndcg_at_{k}": some, f"hit_rate_at_{k}": (hits > 0) * 1.0}
        columns[f"rr_at_{k}"] = np.where(hits > 0, 1 / random.integers(1, k + 1, n), 0.0)
    return columns


def zipf(n_items: int, shape: tuple[int, ...], random: np.random.Generator) -> Ints:
    """Draw items 1 to n_items, item i in proportion to 1 / i."""
    return np.floor(np.power(float(n_items), random.random(shape))).astype(np.int64)


def draw_lists(dataset: Dataset, n_users: int, random: np.random.Generator) -> Ints:
    """Draw distinct items of each list, best first; shape (n_users, length)."""
    positions = np.arange(dataset.length)
    drawn = np.sort(zipf(dataset.items - dataset.length, (n_users, dataset.length), random), axis=1)
    # A repeated item is replaced by the next less popular one.
    items = np.maximum.accumulate(drawn - positions, axis=1) + positions
    shuffled: Ints = random.permuted(items, axis=1)
    return shuffled


def recommendations(
    dataset: Dataset, users: Ints, items: Ints, model: str, random: np.random.Generator
) -> pa.Table:
    """Return a row per user and item of one model."""
    if dataset.repeats:
        repeated = random.random(items.shape) < dataset.repeats
        items = np.where(repeated, items[:, :1], items)
    columns = {
        "user": as_ids(dataset, "user", np.repeat(users, dataset.length)),
        "item": as_ids(dataset, "item", items.ravel()),
    }
    if dataset.scored:
        scores = np.sort(random.random(items.shape), axis=1)[:, ::-1]
        scores = np.round(scores * TIED_SCORES) / TIED_SCORES if dataset.ties else scores
        columns["score"] = pa.array(scores.ravel())
    else:
        ranks = np.tile(np.arange(1, dataset.length + 1, dtype=np.int64), len(users))
        columns["rank"] = pa.array(ranks)
    if dataset.models > 1:
        columns["model"] = pa.array(np.full(items.size, model))
    if dataset.folds:
        columns["fold"] = folds_of(dataset, np.repeat(users, dataset.length))
    return pa.table(columns)


def truth(dataset: Dataset, users: Ints, lists: Ints, random: np.random.Generator) -> pa.Table:
    """Draw relevant items: most users have few, some have hundreds."""
    n_new = round(WITHOUT_LIST * len(users))
    index = np.flatnonzero(random.random(len(users)) >= WITHOUT_TRUTH)
    counts = 1 + np.floor(random.lognormal(TRUTH_LOG_MEAN, 1.0, len(index) + n_new)).astype(np.int64)
    counts = np.minimum(counts, min(MOST_RELEVANT, dataset.items // 10))
    # Users without a list have ids above those of all users with one.
    everybody = np.concatenate([users[index], dataset.users + users[:n_new]])
    row = np.repeat(np.arange(len(everybody)), counts)
    items = zipf(dataset.items, (len(row),), random)
    from_list = (row < len(index)) & (random.random(len(row)) < IN_LIST)
    depth = np.floor(dataset.length * random.random(len(row)) ** 2).astype(np.int64)
    items[from_list] = lists[index[row[from_list]], depth[from_list]]
    distinct = np.unique(row * (dataset.items + 1) + items)
    row, items = np.divmod(distinct, dataset.items + 1)
    grades = random.choice(GRADES, len(row), p=GRADE_SHARES)
    if dataset.repeats:
        again = np.flatnonzero(random.random(len(row)) < dataset.repeats)
        row, items, grades = (np.concatenate([column, column[again]]) for column in (row, items, grades))
    columns = {
        "user": as_ids(dataset, "user", everybody[row]),
        "item": as_ids(dataset, "item", items),
    }
    if dataset.graded:
        columns["relevance"] = pa.array(grades)
    if dataset.folds:
        columns["fold"] = folds_of(dataset, everybody[row])
    return pa.table(columns)


def folds_of(dataset: Dataset, users: Ints) -> pa.Array:
    """Return the fold of each user."""
    return pa.array((users % dataset.folds).astype(np.int32))


def as_ids(dataset: Dataset, kind: str, numbers: Ints) -> pa.Array:
    """Return stored ids: the numbers themselves, or text such as ``user-00000042``."""
    if dataset.ids == "int":
        return pa.array(numbers)
    largest = int(numbers.max(initial=0))
    names = pa.array([f"{kind}-{number:08}" for number in range(largest + 1)])
    return names.take(pa.array(numbers))
