"""Logging of results to MLflow: values as metrics, conventions as parameters, the report as an artifact."""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from spark_eval.errors import ConfigError, SetupError
from spark_eval.results.leaderboard import cutoff_text, measure_of
from spark_eval.results.report.data import RunFacts, part_of
from spark_eval.schema import ALL, MODEL, SEGMENT, SEGMENT_VALUE, VERSION, Row, Table

PREFIX: Final = "spark_eval"
LONGEST_NAME: Final = 250
WHOLE: Final = re.compile(r"[0-9]{1,18}")
# Characters to replace in model and segment names, where a slash would make a folder; and in metric names.
UNTAKEN: Final = re.compile(r"[^\w.\- ]|^\.+")
NO_WORD: Final = re.compile(r"[^\w.\-]+")
CHOICE: Final = re.compile(r"(\w+)(=|>=?)(.+)")


def import_mlflow() -> Any:
    """Return the module MLflow; raise SetupError NO_MLFLOW if it is not installed."""
    try:
        return import_module("mlflow")
    except ImportError as error:
        message = "log_mlflow needs MLflow; install it: pip install 'spark-eval[mlflow]', or 'mlflow-skinny'"
        raise SetupError("NO_MLFLOW", message) from error


def parse_model_version(text: str, where: str) -> tuple[str, str]:
    """Return the name and the number of a model version; raise ConfigError INVALID_MODEL_VERSION.

    >>> parse_model_version("ctr/7", "model_version")
    ('ctr', '7')
    """
    name, _, version = text.rpartition("/")
    if not name or not WHOLE.fullmatch(version):
        message = f"{where} is {text!r}; give the registered model and its version: ctr/7"
        raise ConfigError("INVALID_MODEL_VERSION", message)
    return name, version


def mark_version(
    model_version: str, alias: str | None, tags: Mapping[str, str], *, passed: bool | None
) -> None:
    """Set tags of a registered model version, and the alias if all gates passed.

    ``passed`` is None without gates: the alias then stays where it is, as after a failed gate.
    """
    name, version = parse_model_version(model_version, "model_version")
    client = import_mlflow().MlflowClient()
    gates = {True: "passed", False: "failed", None: "none"}[passed]
    for key, value in {**tags, f"{PREFIX}.gates": gates}.items():
        client.set_model_version_tag(name, version, key, value)
    if alias is not None and passed:
        client.set_registered_model_alias(name, alias, version)


def log_run(
    facts: RunFacts, run_id: str | None = None, model_version: str | None = None, alias: str | None = None
) -> str:
    """Log all results to the active MLflow run, or to a new one; return its MLflow id.

    Then mark the model version, if it is given; see ``mark_version``.

    Raises SetupError NO_MLFLOW if MLflow is not installed, and ConfigError MLFLOW_NAME or
    INVALID_MODEL_VERSION; MLflow's own errors are not caught.
    """
    mlflow = import_mlflow()
    if model_version is not None:
        parse_model_version(model_version, "model_version")
    elif alias is not None:
        raise ConfigError("INVALID_MODEL_VERSION", f"alias {alias!r} has no model_version; give both")
    # Imported here: pages need Jinja2, which may be missing on executors.
    from spark_eval.results.report.page import report_page

    metrics = logged_metrics(facts)
    page = report_page(facts if run_id is None else replace(facts, run_id=run_id))
    active = mlflow.active_run()
    with mlflow.start_run(run_name=run_id) if active is None else nullcontext(active) as run:
        mlflow.set_tags(logged_tags(facts, run_id))
        mlflow.log_params(logged_params(facts))
        mlflow.log_metrics(metrics)
        mlflow.log_text(page, f"{PREFIX}/{'-'.join(facts.records)}.html")
        logged = str(run.info.run_id)
    if model_version is not None:
        gates = facts.rows(Table.GATES)
        tags = {**logged_tags(facts, run_id), f"{PREFIX}.mlflow_run": logged}
        passed = all(row["passed"] for row in gates) if gates else None
        mark_version(model_version, alias, tags, passed=passed)
    return logged


def logged_metrics(facts: RunFacts) -> dict[str, float]:
    """Return the finite values by MLflow name.

    Raises ConfigError MLFLOW_NAME if two values have the same name, or a name is too long.
    """
    metrics: dict[str, float] = {}
    owners: dict[str, str] = {}
    for name, owner, value in named_values(facts):
        if value is None or not math.isfinite(value):
            continue
        if len(name) > LONGEST_NAME:
            fault = f"longer than {LONGEST_NAME} letters"
        elif owners.setdefault(name, owner) != owner:
            fault = f"the name of {owners[name]!r}, too"
        else:
            metrics[name] = value
            continue
        message = f"{owner!r} would be {name[:LONGEST_NAME]!r} in MLflow, which is {fault}"
        raise ConfigError("MLFLOW_NAME", f"{message}; rename the model or the segment's value")
    return metrics


def named_values(facts: RunFacts) -> Iterator[tuple[str, str, float | None]]:
    """Yield (MLflow name, description, value); names contain the model if there are several."""
    measured = [row for row in facts.rows(Table.METRICS) if facts.is_shown(row["metric"])]
    compared = facts.rows(Table.COMPARISONS)
    models, pairs = {row[MODEL] for row in measured}, {pair_of(row) for row in compared}
    for row in measured:
        model = str(row[MODEL]) if len(models) > 1 else ""
        owner = f"{model} {part_of(row)} {facts.measure(row)}"
        yield logged_name(row, model, facts.has_predictions), owner, row["value"]
    for row in compared:
        pair = pair_of(row) if len(pairs) > 1 else ""
        name, owner = logged_name(row, pair), f"{pair} {part_of(row)} {measure_of(row)}"
        yield f"{name}.difference", owner, row["difference"]
        yield f"{name}.p_{row['test']}", owner, row["p_adjusted"]
    if gates := facts.rows(Table.GATES):
        yield "gates_failed", "", float(sum(not row["passed"] for row in gates))


def pair_of(row: Row) -> str:
    """Return the names of the models of a row of ``comparisons``."""
    return f"{row['candidate']} vs {row['baseline']}"


def logged_name(row: Row, whose: str, has_predictions: bool = False) -> str:
    """Return a name: ``als/country.DE/ndcg_gain_exp2_at_10``; metrics of predictions have no cutoff."""
    segment = "" if row[SEGMENT] == ALL else f"{row[SEGMENT]}.{row[SEGMENT_VALUE]}"
    metric = NO_WORD.sub("_", str(row["metric"])).strip("_")
    folders = [UNTAKEN.sub("_", folder) for folder in (whose, segment) if folder]
    return "/".join([*folders, metric if has_predictions else f"{metric}_at_{cutoff_text(row['k'])}"])


def logged_params(facts: RunFacts) -> dict[str, str]:
    """Return the conventions of each verb, as one text and one by one: ``evaluate.no_hits``."""
    stamps = {
        verb: record["conventions"] for verb, record in facts.records.items() if "conventions" in record
    }
    params: dict[str, str] = {}
    for verb, stamp in stamps.items():
        preset, *choices = re.split("[;,] ", stamp)
        params |= {f"{verb}.conventions": stamp, f"{verb}.preset": preset}
        for name, sign, choice in (match.groups() for one in choices if (match := CHOICE.fullmatch(one))):
            params[f"{verb}.{name}"] = choice if sign == "=" else f"{sign}{choice}"
    for row in facts.rows(Table.COMPARISONS)[:1]:
        params |= {f"compare.{name}": row[name] for name in ("conventions", "correction")}
    return params


def logged_tags(facts: RunFacts, run_id: str | None) -> dict[str, str]:
    """Return the run id, the version and the digest of the truth."""
    tags = {"version": VERSION, **({} if run_id is None else {"run_id": run_id})}
    for record in facts.records.values():
        tags |= {"truth_digest": record["truth_digest"]} if record.get("truth_digest") else {}
    return {f"{PREFIX}.{name}": text for name, text in tags.items()}
