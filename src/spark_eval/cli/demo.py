"""``spark-eval demo``: from a log to a gate decision with the public verbs, including training of models."""

import logging
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import yaml

from spark_eval.cli import terminal
from spark_eval.demo.models import ALS_MODEL, POPULARITY, recommend_all
from spark_eval.demo.online import EFFECT, online_settings, week_of_events
from spark_eval.demo.programme import AFTER, BEFORE, LIVE, RHO, past_programme, programme_settings
from spark_eval.demo.simulation import simulate
from spark_eval.errors import ConfigError, DataError
from spark_eval.names import literal_path
from spark_eval.publishing.local import LocalStore
from spark_eval.results.forecasts import sentence
from spark_eval.results.sentences import decimals_for, interval_text, short, where
from spark_eval.runs.job import Run
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import Config, parse_config, read_config
from spark_eval.runtime import events
from spark_eval.runtime.local_files import check_working_folder, replace_file
from spark_eval.runtime.progress import Display
from spark_eval.runtime.session import describe_java, get_session
from spark_eval.schema import SUBSET, SUBSETS, USER, Row, Subset, Table
from spark_eval.verbs import VERBS
from spark_eval.verbs.report import write_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEMO_RUN: Final = "demo"
ONLINE_RUN: Final = "online"
PROGRAMME_RUN: Final = "programme"
LIST_LENGTH: Final = 20
# The metric of the gate.
DECIDING: Final = {"metric": "ndcg", "k": 10}
DEMO_SEED: Final = 7
# Without native BLAS, for reproducible output: if missing it logs to stderr, if present the last bits differ.
QUIET: Final = {
    "spark.driver.extraJavaOptions": "-Ddev.ludovic.netlib.blas.allowNative=false "
    "-Ddev.ludovic.netlib.lapack.allowNative=false"
}


@click.command("demo")
@click.option(
    "--ratings", type=click.Path(path_type=Path), help="A MovieLens-style CSV instead of a made-up log."
)
@click.option("--scale", type=click.FloatRange(0.1, 1000), default=1.0, help="Size of the made-up log.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("spark-eval-demo"),
    show_default=True,
    help="Folder of all that it makes.",
)
@click.option("--replace", is_flag=True, help="Replace the demo of another log in the output folder.")
@click.option("--online", is_flag=True, help="An online experiment instead: a week of made-up events.")
@click.option("--programme", is_flag=True, help="Thirty past experiments instead, and their calibration.")
def command(
    ratings: Path | None, scale: float, output: Path, replace: bool, online: bool, programme: bool
) -> None:
    """Everything end to end: split a made-up log, train three models, evaluate, compare, decide a gate."""
    check_working_folder()
    events.log.setLevel(logging.WARNING)  # the demo prints its own steps
    if online and programme:
        raise click.UsageError("--online and --programme are two demos; give one")
    if online or programme:
        if ratings is not None:
            name = "--online" if online else "--programme"
            raise click.UsageError(f"{name} makes its own events; leave --ratings out")
        (run_online_demo if online else run_programme_demo)(scale, output)
        return
    run_demo(ratings, scale, output, replace)


def run_demo(ratings: Path | None, scale: float, output: Path, replace: bool) -> None:
    """Run all steps on a simulated or given log: split, train, recommend, evaluate, compare, decide a gate.

    The models are trained on ``global_train`` only. All files are written under ``output``, including the
    config to repeat the evaluation. Raises DataError MISSING_INPUT if ``ratings`` does not exist, ConfigError
    RUN_EXISTS if ``output`` has a demo of another log and ``replace`` is not set.
    """
    if ratings is not None and not ratings.is_file():
        raise DataError("MISSING_INPUT", f"--ratings: no file {str(ratings)!r}")
    given, file = ratings or output / "log.parquet", output / "demo.yaml"
    tree = settings({"path": str(given)} if ratings is None else movielens(ratings), output)
    config = parse_config(tree)
    check_older(file, given, replace)
    output.mkdir(parents=True, exist_ok=True)
    print(describe_java())
    if ratings is None:
        with step("make a log"):
            simulate(scale, DEMO_SEED).to_parquet(given, index=False)
    replace_file(file, yaml.safe_dump(tree, sort_keys=False))
    with Display("demo", is_wanted=True) as display:
        try:
            run_steps(config, output, display)
        finally:
            events.followers.clear()


def run_online_demo(scale: float, output: Path) -> None:
    """Make a week of an experiment with a known effect, decide it, and write its report and config.

    All files are written under ``output``. Raises GateFailure if the experiment is lost or cannot be trusted.
    """
    output.mkdir(parents=True, exist_ok=True)
    with step("make a week of events"):
        log = simulate(scale, DEMO_SEED)
        exposures, happened = week_of_events(log, DEMO_SEED)
        exposures.to_parquet(output / "exposures.parquet", index=False)
        happened.to_parquet(output / "events.parquet", index=False)
    tree, file = online_settings(log, str(output)), output / "online.yaml"
    replace_file(file, yaml.safe_dump(tree, sort_keys=False))
    config = parse_config(tree)
    with step("compare both arms and decide"):
        run = run_verb(VERBS["online"], partial(demo_session, config), config, ONLINE_RUN, replace=True)
    terminal.show_done(VERBS["online"], run)
    with step("make the report"):
        page = write_report(LocalStore(output.absolute()), ONLINE_RUN)
    print(f"again, or with other metrics: spark-eval online --config {shlex.quote(str(file))}")
    print(f"report: {page}")
    VERBS["online"].judge(run)
    print(known_effect(run.rows(Table.DECISIONS)[0]))


def demo_session(config: Config) -> "SparkSession":
    """Open the session of a config."""
    return get_session("spark-eval demo", config.spark.master)


def run_programme_demo(scale: float, output: Path) -> None:
    """Make thirty past experiments with a known correlation, and calibrate the offline metrics by them.

    All files are written under ``output``, including the config to repeat each step.
    """
    output.mkdir(parents=True, exist_ok=True)
    with step("make thirty experiments: lists offline, a week of events online"):
        log = simulate(scale, DEMO_SEED)
        past = past_programme(log, DEMO_SEED)
        for name, lists in past.lists.items():
            lists.to_parquet(output / f"{name}.parquet", index=False)
        past.truth.to_parquet(output / "truth.parquet", index=False)
        past.exposures.to_parquet(output / "exposures.parquet", index=False)
        past.events.to_parquet(output / "events.parquet", index=False)
        past.programme.to_csv(output / "programme.csv", index=False)
    tree, file = programme_settings(log, str(output)), output / "programme.yaml"
    replace_file(file, yaml.safe_dump(tree, sort_keys=False))
    before = {**tree, "recommendations": {"path": str(output / f"{BEFORE}.parquet")}}
    steps = {
        "evaluate what was served before": ("evaluate", BEFORE, before),
        "evaluate the candidates": ("evaluate", AFTER, tree),
        "compare each candidate with what was served before": ("compare", AFTER, tree),
        "compare both arms of each experiment": ("online", LIVE, tree),
        "calibrate the offline metrics": ("calibrate", PROGRAMME_RUN, tree),
    }
    for what, (verb, run_id, settings_of_step) in steps.items():
        config = parse_config(settings_of_step)
        with step(what):
            run = run_verb(VERBS[verb], partial(demo_session, config), config, run_id, replace=True)
    terminal.show_done(VERBS["calibrate"], run)
    with step("make the report"):
        page = write_report(LocalStore(output.absolute()), PROGRAMME_RUN)
    print(f"again, or with your own programme: spark-eval calibrate --config {shlex.quote(str(file))}")
    print(f"report: {page}")
    [row, *_] = run.rows(Table.CALIBRATION)
    print(f"{sentence(row)}; the true effects were made to correlate by {short(RHO, 2)}")


def known_effect(decision: Row) -> str:
    """Return a sentence: the decision with its reason, and the rise of the CTR that was made."""
    what = f"{decision['treatment']}: {decision['decision']}: {decision['reason']}"
    return f"{what}; the effect on ctr was made +{100 * (EFFECT - 1):.0f} %"


def run_steps(config: Config, output: Path, display: Display) -> None:
    """Run the verbs in order, and print the result of each."""

    def made(verb: str) -> Run:
        return run_verb(VERBS[verb], lambda: spark, config, DEMO_RUN, replace=True)

    with step("start Spark"):
        spark = get_session("spark-eval demo", config.spark.master, QUIET)
        display.watch(spark.sparkContext.statusTracker())
    with step("split the log by time and users"):
        split = made("split")
    terminal.show_done(VERBS["split"], split)
    with step("train three models on global_train and recommend"):
        log = spark.read.parquet(literal_path(split.tables[Table.SPLITS]))
        train = log.where(log[SUBSET].isin([subset.value for subset in SUBSETS["global_train"]]))
        users = log.where(log[SUBSET] == Subset.GLOBAL_TEST.value).select(USER).distinct()
        lists = recommend_all(train, users, LIST_LENGTH, DEMO_SEED)
        lists.write.mode("overwrite").parquet(str(output / "recommendations"))
    with step("evaluate all three in one pass"):
        evaluation = made("evaluate")
    terminal.show_done(VERBS["evaluate"], evaluation)
    with step("compare them user by user and decide the gate"):
        comparison = made("compare")
    terminal.show_done(VERBS["compare"], comparison)
    with step("make the report"):
        page = write_report(LocalStore(output.absolute()), DEMO_RUN)
    file = shlex.quote(str(output / "demo.yaml"))
    print(f"again, or with other metrics: spark-eval evaluate --config {file}")
    print(f"report: {page}")
    print(verdict(comparison.rows(Table.GATES), comparison.rows(Table.COMPARISONS)))


def verdict(gates: Sequence[Row], compared: Sequence[Row]) -> str:
    """Return a sentence: the candidate ships, with its difference to the baseline, or the failed gates."""
    failed = [f"{where(row)} {row['decision']}: {row['reason']}" for row in gates if not row["passed"]]
    if failed:
        return f"{ALS_MODEL} does not ship: {'; '.join(failed)}"
    [row] = [
        row
        for row in compared
        if row["candidate"] == ALS_MODEL and all(row[key] == value for key, value in DECIDING.items())
    ]
    decimals = decimals_for(row)
    values = [short(row[f"{side}_value"], decimals) for side in ("candidate", "baseline")]
    interval = interval_text(row["ci_low"], row["ci_high"], decimals)
    return (
        f"{ALS_MODEL} ships: its {where(row)} is {values[0]}, that of {row['baseline']} {values[1]}; "
        f"difference {short(row['difference'], decimals)} (95 %: {interval})"
    )


def check_older(file: Path, log: Path, replace: bool) -> None:
    """Print that an older demo is replaced; raise ConfigError RUN_EXISTS if it has another log."""
    if not file.exists():
        return
    source = read_config(file).interactions
    older = str(source and source.path)
    if Path(older).absolute() != log.absolute() and not replace:
        message = f"{str(file.parent)!r} holds the demo of {older!r}; use --replace or another --output"
        raise ConfigError("RUN_EXISTS", message)
    print(f"replaces the demo of {older} in {file.parent}")


def settings(source: dict[str, Any], output: Path) -> dict[str, Any]:
    """Return the config of the demo."""
    columns = {"user": "userId", "item": "movieId", "timestamp": "timestamp", "relevance": "rating"}
    return {
        "output": {"path": str(output)},
        "interactions": {**source, "columns": columns, "timestamp_unit": "s"},
        "split": {"method": "global_local_ranker", "local_cut": 0.8, "global_cut": 0.9, "seen": "drop"},
        "recommendations": {"path": str(output / "recommendations")},
        "truth": {"path": str(output / "splits" / f"run_id={DEMO_RUN}"), "subset": Subset.GLOBAL_TEST.value},
        "evaluate": {
            "k": [1, 5, 10],
            "metrics": ["map", "mar", "mrr", "ndcg", "recall", "precision", "hit_rate"],
        },
        "compare": {"baseline": {"model": POPULARITY}, "metrics": ["ndcg@10", "recall@10"]},
        # ``min_users: 1``, so that the gate is decided for a log of any size.
        "gates": [{**DECIDING, "model": ALS_MODEL, "max_drop": 0, "min_users": 1}],
    }


def movielens(path: Path) -> dict[str, Any]:
    """Return a source that reads a CSV file of ratings."""
    return {"path": str(path), "format": "csv", "options": {"header": True}}


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print the start of a step and, when it is done, its duration."""
    print(f"{'':10} {what} ...", flush=True)
    start = time.monotonic()
    yield
    print(f"[{time.monotonic() - start:6.1f} s] {what}", flush=True)
