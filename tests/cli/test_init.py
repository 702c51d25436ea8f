"""``spark-eval init``: what it guesses of tables of all kinds, and that its config is valid at once."""

import gzip
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.cli.conftest import call
from tests.pages.blocks import OUTPUT, SHELL, blocks, command_lines
from tests.pages.walk import difference

from spark_eval.cli.init.guesses import FirstRows, unit_of
from spark_eval.cli.init.samples import sample_of
from spark_eval.config.strict_yaml import line, load_yaml
from spark_eval.demo.simulation import simulate
from spark_eval.errors import DataError
from spark_eval.runs.sections import Config, read_config

MOVIELENS = pd.DataFrame(
    {"userId": [1, 1, 2], "movieId": [31, 1029, 10], "rating": [2.5, 3.0, 5.0], "timestamp": 1_260_759_144}
)
LISTS = pd.DataFrame({"user_id": [1, 1, 2], "movie_id": [31, 5, 10], "prediction": [3.5, 1.0, 0.1]})
TRUTH = pd.DataFrame({"user_id": [1, 2], "movie_id": [31, 10]})
CLICKS = pd.DataFrame({"clicked": [0, 1, 1], "p_click": 0.5, "score": [0.1, 0.9, 0.4], "model": "ctr"})
EVALUATE = ("--recommendations", "als.parquet", "--truth", "truth.parquet")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a log, lists, a truth and predictions."""
    monkeypatch.chdir(tmp_path)
    MOVIELENS.to_csv("ratings.csv", index=False)
    LISTS.to_parquet("als.parquet", index=False)
    TRUTH.to_parquet("truth.parquet", index=False)
    CLICKS.to_parquet("clicks.parquet", index=False)
    return tmp_path


def drawn(*arguments: str) -> Any:
    """The config that init writes, read back; it says nothing on stderr."""
    answer = call("init", "--config", "first.yaml", "--force", *arguments)
    assert (answer.code, answer.err) == (0, ""), answer.err
    return read_config(Path("first.yaml"))


def refused(code: str, *arguments: str) -> str:
    """What is said where init names an error and leaves no file."""
    answer = call("init", "--config", "none.yaml", *arguments)
    assert answer.error == code
    assert not Path("none.yaml").exists()
    return answer.err


def guessed(section: str, rows: pd.DataFrame) -> dict[str, str]:
    """The columns that are guessed of a table."""
    table = pa.Table.from_pandas(rows, preserve_index=False)
    return {ours: one.column for ours, one in FirstRows(section, table, {}).guesses().items()}


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("userId movieId rating timestamp", "userId movieId timestamp rating"),
        ("reviewerID asin overall unixReviewTime", "reviewerID asin unixReviewTime overall"),
        ("itemid visitorid timestamp", "visitorid itemid timestamp"),
        ("session aid ts", "session aid ts"),
        ("Book-Rating User-ID ISBN event_time_utc", "User-ID ISBN event_time_utc Book-Rating"),
        ("buyer_user_uuid movie_key time", "buyer_user_uuid movie_key time"),
        # headers of RecBole's atomic files, and names that hold a word of ratings
        (
            "user_id:token item_id:token rating:float timestamp:float",
            "user_id:token item_id:token timestamp:float rating:float",
        ),
        (
            "user_id:token artist_id:token stars:float timestamp:float",
            "user_id:token artist_id:token timestamp:float stars:float",
        ),
        ("user_id item_id user_rating ts", "user_id item_id ts user_rating"),
        ("user_id item_id star_rating ts", "user_id item_id ts star_rating"),
        ("user_id item_id mean_stars ts", "user_id item_id ts mean_stars"),
    ],
)
def test_columns_of_well_known_logs(names: str, wanted: str) -> None:
    rows = pd.DataFrame({name: [1_500_000_000] for name in names.split()})
    assert " ".join(guessed("interactions", rows).values()) == wanted


def test_a_log_without_a_relevance_says_that_every_row_is_relevant() -> None:
    log = {"user": [1], "item": [1], "timestamp": [1_500_000_000], "opinion": [3], "note": ["fine"]}
    pd.DataFrame(log).to_parquet("log.parquet")
    answer = call("init", "--config", "first.yaml", "--interactions", "log.parquet")
    for text in (answer.out, Path("first.yaml").read_text()):
        assert "every row is relevant; numbers are in opinion; --column interactions.relevance=NAME" in text
    told = call(
        *("init", "--config", "first.yaml", "--force", "--interactions", "log.parquet"),
        *("--column", "relevance=opinion"),
    )
    assert "every row is relevant" not in told.out


@pytest.mark.parametrize("line", ["301 Q0 FR940202-2-00150 1 2.04 run", "301 0  FR940202-2 1", "1 31 2.5"])
def test_columns_divided_by_blanks_are_refused_by_name(line: str) -> None:
    Path("run.txt").write_text(f"{line}\n" * 3)
    assert "divided by blanks" in refused("NEEDS_SPARK", "--recommendations", "run.txt", *EVALUATE[2:])


def test_a_time_is_known_by_its_type() -> None:
    rows = pd.DataFrame({"user": ["a"], "item": ["b"], "zeit": [pd.Timestamp("2024-01-01")]})
    assert guessed("interactions", rows)["timestamp"] == "zeit"


def test_text_is_a_time_only_if_it_is_written_as_one() -> None:
    rows = pd.DataFrame({"user": ["a"], "item": ["b"], "date": ["soon"], "created_at": ["2024-01-31 10:00"]})
    assert guessed("interactions", rows)["timestamp"] == "created_at"
    nothing = pd.DataFrame(
        {"user": ["a", "b"], "item": "b", "date": ["2024-01-31", "soon"], "when": [20_000.5, 1.5e9]}
    )
    with pytest.raises(DataError, match=r"MISSING_COLUMN.*'timestamp'"):
        guessed("interactions", nothing)
    unknown = pa.table({"user": ["a"], "item": ["b"], "date": pa.nulls(1, pa.string())})
    with pytest.raises(DataError, match=r"MISSING_COLUMN.*'date' \(text\)"):
        FirstRows("interactions", unknown, {}).guesses()


def test_our_own_name_comes_before_common_ones() -> None:
    names = ["customer", "userid", "user", "item_name", "item"]
    assert guessed("truth", pd.DataFrame({name: ["a"] for name in names})) == {"user": "user", "item": "item"}


def test_columns_that_differ_by_case_only_are_refused() -> None:
    with pytest.raises(DataError, match=r"AMBIGUOUS_COLUMN.*truth: columns User, USER differ") as raised:
        guessed("truth", pd.DataFrame({"User": ["a"], "item": ["b"], "USER": ["c"], "Item_2": ["d"]}))
    assert "Item_2" not in raised.value.message


@pytest.mark.parametrize(
    ("first", "unit"),
    [(1_260_759_144, "s"), (1_260_759_144_000, "ms"), (1_260_759_144_000_000, "us"), (7, None), (None, None)],
)
def test_the_unit_of_a_time(first: int | None, unit: str | None) -> None:
    assert unit_of(pa.chunked_array([pa.array([first, None], pa.int64())])) == unit
    if unit is not None:
        assert unit_of(pa.chunked_array([pa.array([first, 7], pa.int64())])) is None


def test_numbers_beyond_those_of_spark_are_no_ids() -> None:
    largest = pd.DataFrame({"user": pd.array([2**64 - 1], "UInt64"), "item": pd.array([7], "UInt32")})
    with pytest.raises(DataError, match=r"'user', which is integers or text; found: 'user' \(numbers\)"):
        guessed("truth", largest)
    assert guessed("truth", largest.assign(customer="a")) == {"user": "customer", "item": "item"}


def test_unsigned_integers_that_fit_64_bits_are_ids() -> None:
    TRUTH.astype("uint64").to_parquet("truth.parquet", index=False)
    assert drawn(*EVALUATE).truth.columns == {"user": "user_id", "item": "movie_id"}


def test_a_time_that_no_unit_fits_is_refused_unless_the_unit_is_given() -> None:
    MOVIELENS.assign(timestamp=[1, 2, 3]).to_csv("early.csv", index=False)
    assert "--column interactions.timestamp=NAME" in refused("MISSING_COLUMN", "--interactions", "early.csv")
    told = ("--interactions", "early.csv", "--column", "timestamp=timestamp")
    assert "--timestamp-unit" in refused("CANNOT_GUESS", *told)
    assert drawn("--interactions", "early.csv", "--timestamp-unit", "ms").interactions.timestamp_unit == "ms"


def test_the_likelier_column_wins_and_the_others_are_named() -> None:
    LISTS.assign(customer_id=7, rank=[1, 2, 1]).to_parquet("als.parquet", index=False)
    columns = {"user": "user_id", "item": "movie_id", "rank": "rank"}
    assert drawn(*EVALUATE).recommendations.columns == columns
    text = Path("first.yaml").read_text()
    assert re.search(
        r"user: user_id +# guessed: .*; confirm; customer_id would fit, too$", text, re.MULTILINE
    )
    assert re.search(r"rank: rank +# guessed: .*; confirm; prediction would fit, too$", text, re.MULTILINE)


def test_ranks_from_zero_are_left_for_scores_or_refused() -> None:
    rows = LISTS.assign(rank=[0, 1, 0])
    rows.to_parquet("als.parquet", index=False)
    assert drawn(*EVALUATE).recommendations.columns["score"] == "prediction"
    rows.drop(columns="prediction").to_parquet("als.parquet", index=False)
    refused("RANK_BASE", *EVALUATE)


def test_a_given_score_orders_lists_that_have_ranks() -> None:
    LISTS.assign(rank=[1, 2, 1]).to_parquet("als.parquet", index=False)
    columns = drawn(*EVALUATE, "--column", "score=prediction").recommendations.columns
    assert columns == {"user": "user_id", "item": "movie_id", "score": "prediction"}


def test_lists_in_arrays_have_a_score_only_if_it_is_given() -> None:
    lists = pd.DataFrame({"user_id": [1, 2], "movie_ids": [[31, 5], [10]], "score": 0.5, "rank": 1})
    lists.to_parquet("als.parquet", index=False)
    columns = {"user": "user_id", "item": "movie_ids"}
    assert drawn(*EVALUATE).recommendations.columns == columns
    told = drawn(*EVALUATE, "--column", "score=rank").recommendations.columns
    assert told == {**columns, "score": "rank"}


def test_a_missing_column_is_refused_with_the_columns_and_the_option() -> None:
    pd.DataFrame({"who": ["a"], "what": [1.5]}).to_parquet("als.parquet", index=False)
    said = refused("MISSING_COLUMN", *EVALUATE)
    for part in ("'user'", "'item'", "'who' (text), 'what' (numbers)", "--column recommendations.user=NAME"):
        assert part in said


def test_missing_columns_of_all_tables_are_in_one_error() -> None:
    pd.DataFrame({"what": [1.5]}).to_parquet("als.parquet", index=False)
    pd.DataFrame({"user": [1], "which": [1.5]}).to_parquet("truth.parquet", index=False)
    said = refused("MISSING_COLUMN", *EVALUATE)
    lacking = re.findall(r"(\w+): no column looks like '(\w+)'", said)
    assert lacking == [("recommendations", "user"), ("recommendations", "item"), ("truth", "item")]


def test_a_given_column_is_not_marked_as_guessed() -> None:
    LISTS.rename(columns={"user_id": "who"}).to_parquet("als.parquet", index=False)
    assert drawn(*EVALUATE, "--column", "user=who").recommendations.columns["user"] == "who"
    assert re.search(r"user: who +# given$", Path("first.yaml").read_text(), re.MULTILINE)
    config = drawn(
        *EVALUATE, "--column", "user=who", "--column", "truth.item=user_id", "--column", "truth.user=movie_id"
    )
    assert config.truth.columns == {"user": "movie_id", "item": "user_id"}
    TRUTH.rename(columns={"user_id": "who"}).to_parquet("truth.parquet", index=False)
    config = drawn(*EVALUATE, "--column", "user=who")
    assert config.recommendations.columns["user"] == config.truth.columns["user"] == "who"


def test_a_field_of_a_column_is_given_by_dots() -> None:
    pd.DataFrame({"by": [{"id": 1}, {"id": 2}], "item": 7, "score": 0.5}).to_parquet("als.parquet")
    assert drawn(*EVALUATE, "--column", "user=by.id").recommendations.columns["user"] == "by.id"
    refused("MISSING_COLUMN", *EVALUATE, "--column", "user=by.name")


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ("user", "INVALID_SETTING"),
        ("user=nobody", "MISSING_COLUMN"),
        ("usr=user_id", "UNKNOWN_CONFIG_KEY"),
        ("truth.score=user_id", "UNKNOWN_CONFIG_KEY"),
        ("log.user=user_id", "UNKNOWN_CONFIG_KEY"),
    ],
)
def test_an_unknown_given_column_is_refused(told: str, code: str) -> None:
    refused(code, *EVALUATE, "--column", told)


def test_a_model_is_named_by_a_column_an_option_or_the_path() -> None:
    assert drawn(*EVALUATE).recommendations.model == "als"
    assert drawn(*EVALUATE, "--model", "mine").recommendations.model == "mine"
    LISTS.assign(algo="knn").to_parquet("als.parquet", index=False)
    assert drawn(*EVALUATE).recommendations.columns["model"] == "algo"
    assert "model" not in drawn(*EVALUATE, "--model", "mine").recommendations.columns
    LISTS.to_parquet("01", index=False)  # a folder that readers would take for 1
    assert drawn("--recommendations", "01", *EVALUATE[2:]).recommendations.model == "model"


def test_a_column_is_one_thing_only() -> None:
    pd.DataFrame({"rating": [0.5, 1.0]}).to_parquet("clicks.parquet", index=False)
    assert "no column looks like 'score'" in refused("MISSING_COLUMN", "--predictions", "clicks.parquet")


def test_a_model_may_be_a_name_of_folders() -> None:
    LISTS.assign(algo="knn").to_parquet("by_model", partition_cols=["algo"], index=False)
    config = drawn("--recommendations", "by_model", "--truth", "truth.parquet")
    assert config.recommendations.columns["model"] == "algo"


def test_folds_are_mapped_only_if_all_tables_have_them() -> None:
    LISTS.assign(cv_fold=0).to_parquet("als.parquet", index=False)
    assert "fold" not in drawn(*EVALUATE).recommendations.columns
    TRUTH.assign(cv_fold=0).to_parquet("truth.parquet", index=False)
    assert drawn(*EVALUATE).recommendations.columns["fold"] == "cv_fold"


@pytest.mark.parametrize(
    ("labels", "scores", "wanted"),
    [
        ([0, 1, 1], [0.1, 0.5, 1.0], ("binary", "probability", 1, 0)),
        ([True, False, True], [-2.0, 0.5, 1.0], ("binary", "raw", 1, 0)),
        ([1, 2, 2], [-2.0, 0.5, 1.0], ("binary", "raw", 2, 1)),
        (["no", "yes", "no"], [0.1, 0.5, 1.0], ("binary", "probability", "yes", "no")),
        (["No", "Yes", "No"], [0.0, 0.5, 1.1], ("binary", "raw", "Yes", "No")),
        (["unread", "Clicked", "unread"], [-0.1, 0.5, 1.0], ("binary", "raw", "Clicked", "unread")),
        ([1.5, 2.5, 4.0], [1.0, 2.0, 3.5], ("regression", None, 1, 0)),
    ],
)
def test_the_task_of_predictions(labels: list[Any], scores: list[float], wanted: tuple[Any, ...]) -> None:
    CLICKS.assign(clicked=labels, score=scores).to_parquet("clicks.parquet", index=False)
    found = drawn("--predictions", "clicks.parquet").predictions
    assert (found.task, found.scores, found.positive, found.negative) == wanted
    is_written = wanted[0] == "binary" and wanted[2:] != (1, 0)  # what goes without saying is not written
    assert ("positive:" in Path("first.yaml").read_text()) == is_written


def test_labels_of_many_words_are_not_guessed() -> None:
    CLICKS.assign(clicked=["a", "b", "c"]).to_parquet("clicks.parquet", index=False)
    refused("CANNOT_GUESS", "--predictions", "clicks.parquet")


def test_a_score_beside_a_label_is_a_prediction() -> None:
    assert drawn("--recommendations", "clicks.parquet").predictions.columns["label"] == "clicked"


@pytest.mark.parametrize(
    ("tables", "verbs"),
    [
        (("--interactions", "ratings.csv"), ["split"]),
        (("--interactions", "ratings.csv", *EVALUATE[:2]), ["split", "evaluate"]),
        (("--interactions", "ratings.csv", *EVALUATE), ["evaluate"]),
        (("--predictions", "clicks.parquet"), ["predictions"]),
    ],
)
def test_the_verbs_that_are_to_come(tables: tuple[str, ...], verbs: list[str]) -> None:
    answer = call("init", "--config", "first.yaml", *tables)
    commands = re.findall(r"^  spark-eval (\w+) --config first\.yaml", answer.out, re.MULTILINE)
    assert commands == ["validate", *verbs]
    text = Path("first.yaml").read_text()
    assert re.findall(r"^#   spark-eval (\w+) ", text, re.MULTILINE) == commands
    is_unused = "--interactions" in tables and "split" not in verbs
    assert ("only spark-eval split would read this" in text) == is_unused


def test_a_table_for_no_verb_is_refused() -> None:
    refused("MISSING_SECTION", "--truth", "truth.parquet")
    refused("USAGE")


def test_a_command_to_come_can_be_copied_from_the_terminal() -> None:
    file = "my first\x1b[2J.yaml"
    answer = call("init", "--config", file, *EVALUATE)
    assert (answer.code, "\x1b" in answer.out) == (0, False)
    assert "  spark-eval validate --config 'my first\\x1b[2J.yaml'" in answer.out.splitlines()
    call("init", "--config", "my first.yaml", *EVALUATE)
    [words] = [
        words
        for words in command_lines(Path("my first.yaml").read_text().replace("#   ", ""))
        if words[1:2] == ["evaluate"]
    ]
    assert words == ["spark-eval", "evaluate", "--config", "my first.yaml"]


def test_what_would_be_no_valid_config_is_not_written() -> None:
    assert "output.path" in refused("INVALID_CONFIG", *EVALUATE, "--output", "out\a")


def test_a_link_to_nowhere_is_no_free_name() -> None:
    Path("first.yaml").symlink_to("elsewhere.yaml")
    answer = call("init", "--config", "first.yaml", *EVALUATE)
    assert (answer.error, Path("elsewhere.yaml").exists()) == ("CONFIG_EXISTS", False)


def test_a_file_is_replaced_only_by_force() -> None:
    Path("first.yaml").write_text("mine")
    answer = call("init", "--config", "first.yaml", *EVALUATE)
    assert (answer.error, Path("first.yaml").read_text()) == ("CONFIG_EXISTS", "mine")
    assert drawn(*EVALUATE).recommendations.path == "als.parquet"


def test_formats_are_known_by_content() -> None:
    LISTS.to_csv("semicolons", sep=";", index=False)
    config = drawn("--recommendations", "semicolons", *EVALUATE[2:]).recommendations
    assert (config.format, config.options) == ("csv", {"header": True, "sep": ";"})
    Path("packed.csv.gz").write_bytes(gzip.compress(LISTS.to_csv(index=False).encode()))
    assert drawn("--recommendations", "packed.csv.gz", *EVALUATE[2:]).recommendations.format == "csv"
    LISTS.to_json("lines", orient="records", lines=True)
    assert drawn("--recommendations", "lines", *EVALUATE[2:]).recommendations.format == "json"
    pa.orc.write_table(pa.Table.from_pandas(LISTS), "columns")
    assert drawn("--recommendations", "columns", *EVALUATE[2:]).recommendations.format == "orc"


def test_columns_without_names_have_those_of_spark() -> None:
    LISTS.to_csv("bare.csv", header=False, index=False)
    tables = ("--recommendations", "bare.csv", *EVALUATE[2:])
    assert "'_c0' (integers)" in refused("MISSING_COLUMN", *tables)
    told = [
        word
        for name, place in zip(("user", "item", "score"), "012", strict=True)
        for word in ("--column", f"recommendations.{name}=_c{place}")
    ]
    assert drawn(*tables, *told).recommendations.options == {"header": False}


def test_columns_of_csv_have_the_names_that_spark_gives_them(spark: SparkSession) -> None:
    Path("odd.csv").write_text(",userId,movieId,score,Score\n0,1,2,0.5,1\n")
    names = ["_c0", "userId", "movieId", "score3", "Score4"]
    assert spark.read.csv(str(Path("odd.csv").absolute()), header=True).columns == names
    assert sample_of("odd.csv", "recommendations").rows.column_names == names


@pytest.mark.parametrize(
    ("path", "content", "code"),
    [
        ("gone", None, "MISSING_INPUT"),
        ("s3a://bucket/recs", None, "NEEDS_SPARK"),
        ("recs*", None, "NEEDS_SPARK"),
        ("colons.dat", b"1::2::3\n", "NEEDS_SPARK"),
        ("empty.csv", b"", "EMPTY_INPUT"),
        ("nothing.csv.gz", gzip.compress(b"", mtime=0), "EMPTY_INPUT"),
        ("locked.parquet", b"PARE1234" + b"\x01\0\0\0PARE", "NEEDS_SPARK"),
        ("cut.parquet", b"PAR1 and no footer", "CORRUPT_FILE"),
        ("bell\a", None, "INVALID_CONFIG"),
        ("http://host/recs", None, "UNSUPPORTED_INPUT"),
        ("list.json", b'{"user": 1}\n[1]\n', "MALFORMED_RECORD"),
    ],
)
def test_a_table_that_cannot_be_looked_at_is_refused(path: str, content: bytes | None, code: str) -> None:
    if content is not None:
        Path(path).write_bytes(content)
    refused(code, "--recommendations", path, *EVALUATE[2:])


def test_a_delta_table_needs_spark(folder: Path) -> None:
    (folder / "lake" / "_delta_log").mkdir(parents=True)
    LISTS.to_parquet("lake/part.parquet")
    assert "Delta" in refused("NEEDS_SPARK", "--recommendations", "lake", *EVALUATE[2:])


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@example("null")
@example("1e3")
@example("no")
@example("a: b # c")
@example("{x}\n- y")
@example("\N{LINE SEPARATOR}\N{NEXT LINE}\N{ZERO WIDTH NO-BREAK SPACE}\0\N{RIGHT-TO-LEFT OVERRIDE}")
@example("\N{PILE OF POO} 'Grüße' \"x\" \\")
def test_any_text_survives_writing_and_reading(text: str) -> None:
    written = line("key", {"a": text, "b": [text]}, text)
    assert written.isprintable()
    assert load_yaml(written, "test") == {"key": {"a": text, "b": [text]}}


HOSTILE = ["user", "it: em # no\n- x", "'sco\"re'\t{a}", "null", "1e3", "\N{RIGHT-TO-LEFT OVERRIDE}üser id"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_column_names_reach_the_config_unchanged(name: str) -> None:
    LISTS.rename(columns={"user_id": name}).to_parquet("als.parquet", index=False)
    config = drawn(*EVALUATE, "--column", f"recommendations.user={name}")
    assert config.recommendations.columns["user"] == name


def test_hostile_names_that_also_fit_are_in_comments_only() -> None:
    hostile = "user\nevaluate: {k: 3}"
    LISTS.assign(**{hostile: 1}).to_parquet("als.parquet", index=False)
    assert drawn(*EVALUATE).evaluate.k == [1, 5, 10]
    assert r'"user\nevaluate: {k: 3}" would fit, too' in Path("first.yaml").read_text()


def test_hostile_paths_are_printed_without_their_direction() -> None:
    path = "re\N{RIGHT-TO-LEFT OVERRIDE}cs.parquet"
    LISTS.to_parquet(path, index=False)
    tables = ("--recommendations", path, *EVALUATE[2:])
    assert drawn(*tables).recommendations.path == path
    answer = call("init", "--config", "second.yaml", *tables)
    assert r"recommendations: re\u202ecs.parquet (parquet)" in answer.out.splitlines()


ARRAYS = pa.table(
    {
        "customer": ["a", "b"],
        "recommendations": pa.array(
            [[{"sku": "x", "rating": 2.0}], [{"sku": "y", "rating": 1.0}]],
            pa.list_(pa.struct([("sku", pa.string()), ("rating", pa.float32())])),
        ),
    }
)
TEXT_TRUTH = pd.DataFrame({"customer": ["a", "b"], "sku": ["x", "z"], "stars": [5, 3]})
TEXT_LOG = pd.DataFrame({"customer": list("abab"), "sku": list("xyzx"), "bought": "2024-03-01T10:00:00"})


@pytest.mark.parametrize(
    "kind", ["movielens", "arrays", "milliseconds", "times of text", "predictions", "users"]
)
@pytest.mark.usefixtures("spark")
def test_the_config_is_valid_at_once(kind: str) -> None:
    match kind:
        case "movielens":
            config = drawn("--interactions", "ratings.csv", "--recommendations", "als.parquet")
        case "arrays":
            pa.parquet.write_table(ARRAYS, "top.parquet")
            TEXT_TRUTH.to_parquet("bought.parquet", index=False)
            config = drawn("--recommendations", "top.parquet", "--truth", "bought.parquet")
            assert config.recommendations.layout == "array"
        case "milliseconds":
            log = MOVIELENS.assign(timestamp=1_260_759_144_123).rename(columns={"timestamp": "ts"})
            log.to_parquet("log", partition_cols=["rating"], index=False)
            config = drawn("--interactions", "log")
            assert config.interactions.timestamp_unit == "ms"
        case "times of text":
            TEXT_LOG.rename(columns={"bought": "order date"}).to_csv("log.tsv", sep="\t", index=False)
            config = drawn("--interactions", "log.tsv")
        case "predictions":
            config = drawn("--predictions", "clicks.parquet")
        case "users":
            pd.DataFrame({"user": [1], "country": ["nl"]}).to_parquet("users.parquet", index=False)
            pd.DataFrame({"item": [1], "genres": ["a|b"]}).to_parquet("items.parquet", index=False)
            MOVIELENS.to_parquet("train.parquet", index=False)
            more = ("--users", "users.parquet", "--items", "items.parquet", "--train", "train.parquet")
            config = drawn(*EVALUATE, *more)
            assert "# segments: [country]" in Path("first.yaml").read_text()
    assert isinstance(config, Config)
    checked = call("validate", "--config", "first.yaml")
    assert (checked.code, checked.err) == (0, "")
    assert "config is valid" in checked.out


def test_the_page_shows_what_it_writes() -> None:
    Path("spark-eval-demo").mkdir()
    simulate(1, 7).to_parquet("spark-eval-demo/log.parquet", index=False)
    lists = pd.DataFrame({"model": ["als"] * 5_000, "user": 1, "item": range(5_000), "score": 0.5})
    lists.to_parquet("spark-eval-demo/recommendations", index=False)
    commands, printed, _, config = (
        one.text for one in blocks("docs/init.md") if one.language in (SHELL, OUTPUT)
    )
    [arguments] = [words[1:] for words in command_lines(commands) if words[0] == "spark-eval"]
    assert difference(printed, call(*arguments).out) is None
    assert difference(config, Path("first.yaml").read_text()) is None


def test_what_is_suggested_in_comments_is_valid() -> None:
    TRUTH.assign(rating=[1.0, 5.0]).to_parquet("truth.parquet", index=False)
    assert drawn(*EVALUATE).evaluate.relevance.threshold is None
    text = Path("first.yaml").read_text()
    Path("first.yaml").write_text(text.replace("  # relevance:", "  relevance:"))
    assert read_config(Path("first.yaml")).evaluate.relevance.threshold == 4.0


def test_nothing_is_suggested_that_would_choose_nothing() -> None:
    TRUTH.assign(rating=1.0).to_parquet("truth.parquet", index=False)
    users = pd.DataFrame({"user": [1], "age": [30], "income": [1.5], "country": ["nl"], "member": [True]})
    users.to_parquet("users.parquet", index=False)
    drawn(*EVALUATE, "--users", "users.parquet")
    text = Path("first.yaml").read_text()
    assert "# relevance" not in text
    assert re.search(r"# segments: \[country, member\] ", text)
