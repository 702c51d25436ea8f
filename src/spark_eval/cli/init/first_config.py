"""``spark-eval init``: a commented config for the given tables; each guess has its reason."""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import pyarrow.compute as pc

from spark_eval.cli.init.draft import DraftSection, comment_of, draft
from spark_eval.cli.init.guesses import COLUMNS, FirstRows, ValueKind, column_values, kind_of
from spark_eval.cli.init.samples import TableSample, sample_of
from spark_eval.cli.options import CONFIG
from spark_eval.config.strict_yaml import line, load_yaml, scalar
from spark_eval.errors import ConfigError, DataError, escape_control_characters, nearest
from spark_eval.runs.sections import EvaluateSection, parse_config
from spark_eval.runtime.local_files import check_file, check_working_folder, write_file
from spark_eval.schema import FOLD, RELEVANCE, USER
from spark_eval.splits.rules.methods import TIME

# Sections, in the order of the written config.
ORDER: Final = ("interactions", "recommendations", "truth", "train", "items", "users", "predictions")


@click.command("init")
@CONFIG
@click.option(
    "--output", metavar="PATH", default="out", show_default=True, help="Where runs are to be written."
)
@click.option(
    "--interactions", metavar="PATH", help="A log of user, item and time: to split by time, and to test on."
)
@click.option(
    "--recommendations", metavar="PATH", help="Lists: user, item, score or rank, of one or many models."
)
@click.option(
    "--truth", metavar="PATH", help="What was relevant: user and item. Default: the test part of the log."
)
@click.option("--train", metavar="PATH", help="Training interactions, for segments and popularity.")
@click.option("--items", metavar="PATH", help="The catalogue: groups, features or vectors of items.")
@click.option("--users", metavar="PATH", help="A row per user with columns to segment by.")
@click.option("--predictions", metavar="PATH", help="Rows of a label and a score.")
@click.option(
    "--column",
    "given",
    multiple=True,
    metavar="[SECTION.]OURS=THEIRS",
    help="Tell a column instead of having it guessed; may be repeated.",
)
@click.option("--timestamp-unit", type=click.Choice(["s", "ms", "us"]), help="The unit of times in numbers.")
@click.option("--model", help="The model's name, where no column has it.")
@click.option("--force", is_flag=True, help="Replace the config file if it is there.")
def command(
    file: Path,
    output: str,
    given: Sequence[str],
    timestamp_unit: str | None,
    model: str | None,
    force: bool,
    **tables: str | None,
) -> None:
    """Write a commented config for the tables it is shown: columns guessed, given, to be confirmed.

    It looks at some thousand rows of Parquet, ORC, CSV or JSON, without Spark.
    """
    check_working_folder()
    paths = {name: path for name, path in tables.items() if path is not None}
    if not paths:
        raise click.UsageError("show it a table, such as --interactions or --recommendations with --truth")
    write_first_config(file, output, paths, given, timestamp_unit, model, force)


def write_first_config(
    file: Path,
    output: str,
    paths: Mapping[str, str],
    given: Sequence[str],
    unit: str | None,
    model: str | None,
    force: bool,
) -> None:
    """Inspect the tables, write a config for them, and print the guesses and the next commands.

    ``paths`` are the tables by section. Raises ConfigError CONFIG_EXISTS if the file exists and ``force`` is
    not set, INVALID_PATH if the path cannot be a file.
    """
    check_file(file)
    is_taken = file.is_file() or (file.is_symlink() and not file.exists())  # a dangling link
    if is_taken and not force:
        message = f"{str(file)!r} is there already; choose another --config, or --force replaces it"
        raise ConfigError("CONFIG_EXISTS", message)
    samples = {name: sample_of(paths[name], name) for name in ORDER if name in paths}
    if [*samples] == ["recommendations"] and has_label(samples["recommendations"]):
        samples = {"predictions": samples["recommendations"]}
    sections = drafts(samples, given_columns(given, samples), unit, model)
    verbs = verbs_of(samples)
    following = next_commands(file, verbs)
    text = "\n".join([*opening(following), *body(output, sections, verbs)]).rstrip() + "\n"
    parse_config(load_yaml(text, str(file)))
    write_file(file, text)
    show_guesses(file, sections, following)


def has_label(sample: TableSample) -> bool:
    """Return True if a table has both a label and a score, as predictions do."""
    try:
        FirstRows("predictions", sample.rows, {}).guesses()
    except DataError:
        return False
    return True


def given_columns(given: Sequence[str], samples: Mapping[str, TableSample]) -> dict[str, dict[str, str]]:
    """Return the columns given as ``[section.]ours=theirs``, by section.

    Without a section, the column is set in all sections that have it. Raises ConfigError UNKNOWN_CONFIG_KEY
    for unknown sections and columns, INVALID_SETTING for other forms; DataError MISSING_COLUMN if no table
    has the column.
    """
    of_sections: dict[str, dict[str, str]] = {name: {} for name in samples}
    for text in given:
        name, equals, theirs = text.partition("=")
        section, dot, ours = name.rpartition(".")
        if not (equals and ours and theirs):
            raise ConfigError("INVALID_SETTING", f"--column {text!r} is not [section.]ours=theirs")
        if dot and section not in samples:
            raise ConfigError.unknown("UNKNOWN_CONFIG_KEY", "section", section, samples, "--column")
        columns_of = {one: (*COLUMNS[one][0], *COLUMNS[one][1]) for one in ([section] if dot else samples)}
        if not any(ours in columns for columns in columns_of.values()):
            choices = sorted({column for columns in columns_of.values() for column in columns})
            raise ConfigError.unknown("UNKNOWN_CONFIG_KEY", "column", ours, choices, "--column")
        having = [one for one in columns_of if ours in columns_of[one] and has_column(samples[one], theirs)]
        if not having:
            names = [column for one in columns_of for column in samples[one].rows.column_names]
            message = f"--column {text}: no column {theirs!r}; {nearest(theirs, names)}"
            raise DataError("MISSING_COLUMN", message)
        for one in having:
            of_sections[one][ours] = theirs
    return of_sections


def has_column(sample: TableSample, name: str) -> bool:
    """Return True if a table has this column or nested field."""
    try:
        column_values(sample.rows, name)
    except KeyError:
        return False
    return True


def drafts(
    samples: Mapping[str, TableSample],
    given: Mapping[str, Mapping[str, str]],
    unit: str | None,
    model: str | None,
) -> list[DraftSection]:
    """Return a section for each table; raise one DataError for all missing columns."""
    guesses, faults = {}, []
    for name, sample in samples.items():
        try:
            guesses[name] = FirstRows(name, sample.rows, given[name], unit).guesses()
        except DataError as fault:
            faults.append(fault)
    DataError.raise_all(faults)
    of_folds = [guesses[name] for name in ("recommendations", "truth", "train") if name in guesses]
    if not all(FOLD in columns for columns in of_folds):
        for columns in of_folds:
            if FOLD in columns and not columns[FOLD].is_given:
                del columns[FOLD]
    return [draft(name, samples[name], guesses[name], unit, model) for name in samples]


def verbs_of(names: Collection[str]) -> list[str]:
    """Return the verbs that have their sections; raise ConfigError MISSING_SECTION if there are none."""
    verbs = ["predictions"] if "predictions" in names else []
    if "interactions" in names and "truth" not in names:
        verbs.append("split")
    if "recommendations" in names and ("truth" in names or "interactions" in names):
        verbs.append("evaluate")
    if not verbs:
        fix = "show it --recommendations with --truth or --interactions, --interactions, or --predictions"
        raise ConfigError("MISSING_SECTION", f"no verb does with {', '.join(names)} alone; {fix}")
    return verbs


def next_commands(file: Path, verbs: Sequence[str]) -> list[str]:
    """Return the commands to run next; a split and the evaluation on it are one run, predictions another."""
    config = f"--config {shlex.quote(str(file))}"
    of_split = ("split", "evaluate") if "split" in verbs else ()
    runs = {verb: " --run-id first" if verb in of_split else "" for verb in verbs}
    return [f"spark-eval validate {config}", *(f"spark-eval {verb} {config}{runs[verb]}" for verb in verbs)]


def opening(following: Sequence[str]) -> Iterable[str]:
    """Yield the comment at the top of the config."""
    yield "# Written by spark-eval init. Confirm what is guessed; then:"
    yield from (f"#   {escape_control_characters(command)}" for command in following)
    yield ""


def body(output: str, sections: Sequence[DraftSection], verbs: Sequence[str]) -> Iterable[str]:
    """Yield all sections as YAML."""
    yield "output:"
    yield line("  path", output, "everything is written below it")
    yield ""
    for section in sections:
        if section.name == "interactions" and "split" not in verbs:
            yield "# The truth below is the test; only spark-eval split would read this."
        yield from section.lines()
    if "split" in verbs:
        yield "split:"
        yield line("  method", TIME, "train on what came first; docs/splits.md has others")
        yield line("  test_cut", {"share": 0.8}, "test begins there; or {instant: ...}, or {days: ...}")
        yield ""
    if "evaluate" in verbs:
        chosen: Any = EvaluateSection()
        yield "evaluate:"
        yield line("  k", chosen.k)
        yield line("  metrics", chosen.metrics, "`spark-eval metrics` lists all")
        yield from suggestions({section.name: section for section in sections})


def suggestions(sections: Mapping[str, DraftSection]) -> Iterable[str]:
    """Yield options that the tables allow, as comments."""
    graded = sections.get("truth") or sections["interactions"]
    if RELEVANCE in graded.columns:
        ends = pc.min_max(column_values(graded.sample.rows, graded.columns[RELEVANCE].column)).as_py()
        if ends["min"] != ends["max"]:
            seen = f"relevance goes from {ends['min']} to {ends['max']}; without this all above 0 is relevant"
            yield line("  # relevance", {"threshold": round(0.8 * float(ends["max"]), 6)}, seen)
    if "users" in sections:
        rows, taken = sections["users"].sample.rows, sections["users"].columns[USER].column
        names = [name for name in rows.column_names if name != taken]
        few = [name for name in names if kind_of(rows[name].type) in (ValueKind.TEXT, ValueKind.BOOLEAN)]
        yield line("  # segments", few, "means of each of their values, too")


def show_guesses(file: Path, sections: Sequence[DraftSection], following: Sequence[str]) -> None:
    """Print the guesses and the next commands."""
    for section in sections:
        print(escape_control_characters(f"{section.name}: {section.sample.path} ({section.sample.format})"))
        for ours, guess in section.columns.items():
            print(f"  {ours:<15} {scalar(guess.column):<15} {escape_control_characters(comment_of(guess))}")
        for key, value, comment in section.keys:
            print(f"  {key:<15} {scalar(value):<15} {escape_control_characters(comment)}")
        for note in section.notes:
            print(f"  {escape_control_characters(note)}")
    print(escape_control_characters(f"{file} is written; confirm what is guessed, then"))
    for command in following:
        print(escape_control_characters(f"  {command}"))
