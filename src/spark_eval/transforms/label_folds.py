"""Every row of the log gets its places in the folds of a rule, or the reason why it has none."""

from itertools import combinations
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_eval.names import quoted
from spark_eval.schema import FAULT, FOLD, ITEM, SUBSET, TIMESTAMP, USER, Reason, Subset
from spark_eval.splits.folds import By, FoldRule, Holdout, KFold, StratifiedKFold
from spark_eval.splits.leave_out import Choices, Choose, LastFraction, LeaveOut, LeavePOut, Ties
from spark_eval.splits.rules import HASH_STEPS, Policy
from spark_eval.splits.windows import Backtest, Windows
from spark_eval.transforms.label import before

# A row's places: an array of (fold, subset, fault), in each of which either subset or fault is null.
PLACES: Final = "spark_eval_places"
# Columns of our own, on the way to it.
PLACE: Final = "spark_eval_place"
HELD: Final = "spark_eval_held"
STRATUM: Final = "spark_eval_stratum"
BUCKET: Final = "spark_eval_bucket"
BEFORE: Final = "spark_eval_before"
FILLED: Final = "spark_eval_filled_"
# Rows are dealt out bucket by bucket of their draws, so that no task sorts them all.
BUCKETS: Final = 1_024


def label_folds(interactions: DataFrame, rule: FoldRule, found: Backtest | Choices | None) -> DataFrame:
    """The log with its PLACES after its own columns, one row each; ``found`` is what the rule says of it.

    ``interactions`` has user, item, timestamp (TIMESTAMP), any other columns, and ``fault``. A row that is
    used in no fold has null for places or a fault in each of them, and in ``fault`` the code it came with or
    the first Reason: before_start, gap, after_end, cold_user, cold_item, seen.

    A rule by draws is a projection of one scan, and so are windows; ``exact`` and what is held out of each
    user cost a shuffle. Each policy at ``drop`` adds a scan, an aggregation and a join.
    """
    match rule:
        case Holdout():
            placed = placed_if_sound(interactions, F.array(entry(F.lit(0), held_out(rule))))
        case KFold() | StratifiedKFold():
            placed = tested_once(interactions, rule)
        case Windows() if isinstance(found, Backtest):
            placed = in_windows(interactions, rule, found)
        case LeavePOut() if isinstance(found, Choices):
            placed = all_choices(interactions, rule, found)
        case LeaveOut():
            placed = left_out(interactions, rule)
        case _:
            raise TypeError(f"{rule} lacks what is found of the log")
    if rule.drops:
        placed = after_drops(placed, rule)
    return placed.select(*(F.col(quoted(name)) for name in interactions.columns), PLACES)


def entry(fold: Column, subset: Column, fault: Column | None = None) -> Column:
    """One place of a row."""
    fault = F.lit(None) if fault is None else fault
    names = {FOLD: fold.cast("int"), SUBSET: subset, FAULT: fault.cast("string")}
    return F.struct(*(column.alias(name) for name, column in names.items()))


def placed_if_sound(log: DataFrame, places: Column) -> DataFrame:
    """The log with these places where a row has no fault."""
    return log.withColumn(PLACES, F.when(F.col(FAULT).isNull(), places))


def test_or_train(is_test: Column) -> Column:
    """The subset, where there is no third."""
    return F.when(is_test, Subset.TEST.value).otherwise(Subset.TRAIN.value)


def draw(seed: int, by: By = By.ROW) -> Column:
    """A seeded number of 64 bits, the same in every log and for every type that writes the ids alike.

    Of a row it is a hash of user, item and timestamp.
    """
    row = (F.col(ITEM).cast("string"), F.unix_micros(TIMESTAMP)) if by is By.ROW else ()
    return F.xxhash64(F.lit(seed).cast("long"), F.col(USER).cast("string"), *row)


def held_out(rule: Holdout) -> Column:
    """The subset of a row by its draw."""
    test, validation = rule.steps
    step = F.pmod(draw(rule.seed, rule.by), F.lit(HASH_STEPS))
    is_validation = F.when(step < validation, Subset.VALIDATION.value)
    return F.when(step < test, Subset.TEST.value).otherwise(
        F.coalesce(is_validation, F.lit(Subset.TRAIN.value))
    )


def tested_once(log: DataFrame, rule: KFold | StratifiedKFold) -> DataFrame:
    """Each row in the test of one of k folds, and in the train of all others."""
    by_user = isinstance(rule, KFold) and rule.by is By.USER
    if not rule.exact:
        by = By.USER if by_user else By.ROW
        chosen = log.withColumn(PLACE, F.pmod(draw(rule.seed, by), F.lit(rule.k)))
    elif by_user:
        users = log.where(F.col(FAULT).isNull()).select(USER, FAULT).distinct()
        dealt_users = dealt(users, rule, draw(rule.seed, By.USER), F.lit(""))
        chosen = log.join(dealt_users.select(USER, PLACE), USER, "left")
    else:
        columns = rule.by if isinstance(rule, StratifiedKFold) else ()
        stratum = F.to_json(F.struct(*(F.col(quoted(name)) for name in columns))) if columns else F.lit("")
        chosen = dealt(log, rule, draw(rule.seed), stratum)
    folds = F.sequence(F.lit(0), F.lit(rule.k - 1))
    return placed_if_sound(
        chosen, F.transform(folds, lambda fold: entry(fold, test_or_train(fold == F.col(PLACE))))
    )


def dealt(rows: DataFrame, rule: KFold | StratifiedKFold, by: Column, stratum: Column) -> DataFrame:
    """Sound rows with PLACE, the fold each is dealt to: in every stratum in turn, in the order of the draws.

    Rows that draw alike are dealt in the order of their text; those of the same text are the same row.
    """
    rows = rows.withColumns({STRATUM: F.coalesce(FAULT, F.concat(F.lit("="), stratum)), BEFORE: by})
    rows = rows.withColumn(BUCKET, F.pmod(BEFORE, F.lit(BUCKETS)))
    keys = [STRATUM, BUCKET]
    within = F.row_number().over(Window.partitionBy(*keys).orderBy(BEFORE, text_of(rows)))
    sizes = rows.groupBy(*keys).agg(F.count(F.lit(1)).alias(BEFORE))
    earlier = Window.partitionBy(STRATUM).orderBy(BUCKET).rowsBetween(Window.unboundedPreceding, -1)
    before = sizes.select(*keys, F.coalesce(F.sum(BEFORE).over(earlier), F.lit(0)).alias(BEFORE))
    ranked = rows.withColumn(PLACE, within).drop(BEFORE).join(before, keys)
    start = F.pmod(F.xxhash64(F.lit(rule.seed).cast("long"), STRATUM), F.lit(rule.k))
    return ranked.withColumn(PLACE, F.pmod(F.col(PLACE) - 1 + F.col(BEFORE) + start, F.lit(rule.k)))


def text_of(rows: DataFrame) -> Column:
    """All that a row holds, as text."""
    return F.to_json(F.struct(*(F.col(quoted(name)) for name in rows.columns)))


def left_out(log: DataFrame, rule: LeaveOut) -> DataFrame:
    """One fold: of each user's rows the last ones, or those of the lowest draws, are test."""
    # Rows without a user are no user's; they are spread.
    of_user = Window.partitionBy(USER, F.when(F.col(FAULT).isNotNull(), draw(rule.seed)))
    latest = [F.col(TIMESTAMP).desc()] if rule.choose is Choose.LAST else []
    place = F.row_number().over(of_user.orderBy(*latest, draw(rule.seed), text_of(log)))
    rows = log.withColumns({PLACE: place, HELD: n_held(rule, F.count(F.lit(1)).over(of_user))})
    is_test = F.col(PLACE) <= F.col(HELD)
    if rule.timed and rule.ties is Ties.TOGETHER:
        cut = F.max(F.when(F.col(PLACE) == F.col(HELD), F.col(TIMESTAMP))).over(of_user)
        rows = rows.withColumns({BEFORE: cut, HELD: F.min(TIMESTAMP).over(of_user)})
        is_test = (F.col(TIMESTAMP) >= F.col(BEFORE)) & (F.col(HELD) < F.col(BEFORE))
    return placed_if_sound(rows, F.array(entry(F.lit(0), test_or_train(is_test))))


def n_held(rule: LeaveOut, n_rows: Column) -> Column:
    """How many rows of a user who has so many are held out."""
    match rule:
        case LastFraction():
            share = rule.share
            return F.floor(n_rows * share.numerator / F.lit(share.denominator))
        case LeavePOut():
            return F.when(n_rows > rule.p, rule.p).otherwise(0)
    raise TypeError(f"{rule} holds out nothing")


def all_choices(log: DataFrame, rule: LeavePOut, choices: Choices) -> DataFrame:
    """A fold for each choice of p rows, the rows being numbered in the order of their draws."""
    tested: list[list[str]] = [[] for _ in range(choices.n_rows)]
    for fold, chosen in enumerate(combinations(range(choices.n_rows), choices.p)):
        for place in chosen:
            tested[place].append(str(fold))
    numbered = Window.partitionBy(F.when(F.col(FAULT).isNotNull(), draw(rule.seed)))
    number = F.row_number().over(numbered.orderBy(draw(rule.seed), text_of(log))) - 1
    folds_of = F.get(F.array(*(F.lit(",".join(folds)) for folds in tested)), F.col(PLACE))
    rows = log.withColumn(PLACE, number).withColumn(HELD, F.split(folds_of, ",").cast("array<int>"))
    folds = F.sequence(F.lit(0), F.lit(choices.n_folds - 1))
    return placed_if_sound(
        rows,
        F.transform(folds, lambda fold: entry(fold, test_or_train(F.array_contains(F.col(HELD), fold)))),
    )


def in_windows(log: DataFrame, rule: Windows, backtest: Backtest) -> DataFrame:
    """The folds in whose windows a row's timestamp lies."""
    places = []
    for fold, window in enumerate(backtest.windows):
        train = before(rule, window.train_end)
        if window.train_start is not None:
            train &= ~before(rule, window.train_start)
        test = ~before(rule, window.test_start) & before(rule, window.test_end)
        subset = F.when(train, Subset.TRAIN.value).when(test, Subset.TEST.value)
        places.append(entry(F.lit(fold), subset))
    first, last = backtest.windows[0], backtest.windows[-1]
    outside = F.when(~before(rule, last.test_end), Reason.AFTER_END.value)
    if first.train_start is not None:
        outside = outside.when(before(rule, first.train_start), Reason.BEFORE_START.value)
    within = F.filter(F.array(*places), lambda place: place[SUBSET].isNotNull())
    placed = placed_if_sound(log, F.when(F.size(within) > 0, within))
    unused = F.when(F.col(PLACES).isNull(), F.coalesce(outside, F.lit(Reason.GAP.value)))
    return placed.withColumn(FAULT, F.coalesce(FAULT, unused))


def after_drops(placed: DataFrame, rule: FoldRule) -> DataFrame:
    """The same with a fault in the places of test and validation that a policy drops.

    Who is cold in a fold, and what is seen there, does not depend on what else is dropped.
    """
    policies = {
        Reason.COLD_USER: ([USER], rule.cold_users),
        Reason.COLD_ITEM: ([ITEM], rule.cold_items),
        Reason.SEEN: ([USER, ITEM], rule.seen),
    }
    dropped = [reason for reason, (_, policy) in policies.items() if policy is Policy.DROP]
    known = placed
    for reason in dropped:
        keys = policies[reason][0]
        known = known.join(filled(placed, keys, FILLED + reason), keys, "left")

    def without_dropped(place: Column) -> Column:
        faults = [F.when(is_dropped(place, reason), reason.value) for reason in dropped]
        fault = F.when(place[SUBSET] != Subset.TRAIN.value, F.coalesce(*faults))
        return entry(place[FOLD], F.when(fault.isNull(), place[SUBSET]), fault)

    known = known.withColumn(PLACES, F.transform(PLACES, without_dropped))
    unused = F.forall(PLACES, lambda place: place[SUBSET].isNull())
    first = F.when(unused, F.get(F.col(PLACES), F.lit(0))[FAULT])
    return known.withColumn(FAULT, F.coalesce(FAULT, first))


def filled(placed: DataFrame, keys: list[str], name: str) -> DataFrame:
    """Of each key the parts in which it has rows, as column ``name``: 2 * fold for train, 1 more for
    validation.
    """
    places = placed.select(*keys, F.inline(PLACES)).where(F.col(SUBSET) != Subset.TEST.value)
    code = F.col(FOLD) * 2 + (F.col(SUBSET) == Subset.VALIDATION.value).cast("int")
    return places.groupBy(*keys).agg(F.collect_set(code).alias(name))


def is_dropped(place: Column, reason: Reason) -> Column:
    """Whether a place is dropped for the parts that its key has filled."""
    parts = F.coalesce(FILLED + reason, F.array().cast("array<int>"))
    in_train = F.array_contains(parts, place[FOLD] * 2)
    if reason is not Reason.SEEN:
        return ~in_train
    is_test = place[SUBSET] == Subset.TEST.value
    return in_train | (is_test & F.array_contains(parts, place[FOLD] * 2 + 1))
