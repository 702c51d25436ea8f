"""Config is checked before Spark starts: everything wrong with it has a name, a place and a way out."""

from pathlib import Path

import pytest

from spark_eval.cli.commands import main
from spark_eval.conventions import NoTruth
from spark_eval.errors import ConfigError
from spark_eval.runs.sections import Config, read_config

SMALLEST = "output: {path: out}\n"


def read(tmp_path: Path, text: str, *settings: str) -> Config:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return read_config(path, settings)


def refused(tmp_path: Path, text: str, *settings: str) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text, *settings)
    assert "\n" not in str(raised.value)
    return raised.value


def test_the_smallest_config_has_the_defaults(tmp_path: Path) -> None:
    config = read(tmp_path, SMALLEST)
    assert config.spark.master == "local[*]"
    plan = config.evaluate.checked()
    assert plan.cuts == [1, 5, 10]
    assert plan.conventions.no_truth is NoTruth.DROP
    assert (config.truth, config.train, config.users, plan.segments) == (None, None, None, ())


def test_text_stays_text_unless_it_is_clearly_something_else(tmp_path: Path) -> None:
    written = "{a: no, b: 0123, c: 12:30:45, d: 2024-01-01, e: 1e3, f: '7', g: 1.5, h: true, i: 7, j: 1_000}"
    conf = read(tmp_path, f"{SMALLEST}spark: {{conf: {written}}}").spark.conf
    assert conf == {
        "a": "no",
        "b": "0123",
        "c": "12:30:45",
        "d": "2024-01-01",
        "e": 1000.0,
        "f": "7",
        "g": 1.5,
        "h": True,
        "i": 7,
        "j": "1_000",
    }


def test_true_is_text_as_a_key_and_a_boolean_as_a_value(tmp_path: Path) -> None:
    config = read(tmp_path, f"{SMALLEST}true: {{path: truth, options: {{true: true}}}}\n")
    assert config.true is not None
    assert (config.true.path, config.true.options) == ("truth", {"true": True})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("output: {path: out}\noutput: {path: other}\n", "key 'output' comes twice"),
        ("true: {path: out}\n'true': {path: other}\n", "key 'true' comes twice"),
        ("output: {false: out}\n", "key False is not text"),
        ("output: {path: out, path: other}\n", "key 'path' comes twice"),
        ("output: &a {path: out}\nspark: {conf: *a}\n", "aliases are not allowed"),
        ("output: {path: !!python/object/apply:os.system ['true']}\n", "tags are not allowed"),
        ("output: {path: !!binary b3V0}\n", "tags are not allowed"),
        ("output: {path: !include other.yaml}\n", "tags are not allowed"),
        ("output: {path: out\n", "expected"),
        ("output: {1: out}\n", "key 1 is not text"),
        (SMALLEST + "---\n" + SMALLEST, "single document"),
        ("[" * 20_000, "nested too deeply"),
        ("output: {path: 'a\0b'}\n", "special characters are not allowed"),
        ("#" * 1_000_001, "longer than"),
    ],
)
def test_invalid_yaml(tmp_path: Path, text: str, says: str) -> None:
    error = refused(tmp_path, text)
    assert error.code == "INVALID_YAML"
    assert says in error.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("outptu: {path: out}", "unknown key 'outptu'; did you mean 'output'?"),
        (SMALLEST + "interactions: {pth: log}", "unknown key 'interactions.pth'; did you mean 'path'?"),
        (SMALLEST + "recommendations: {path: r, layuot: array}", "did you mean 'layout'?"),
        (SMALLEST + "evaluate: {matrics: [map]}", "unknown key 'evaluate.matrics'; did you mean 'metrics'?"),
        (SMALLEST + "evaluate: {relevance: {treshold: 4}}", "did you mean 'threshold'?"),
        (SMALLEST + "split: {local_cutt: 0.8}", "unknown option 'local_cutt' in split; did you mean"),
        (SMALLEST + "truth: {path: t, where: [{colum: a, op: is_null}]}", "did you mean 'column'?"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_known_one(tmp_path: Path, text: str, says: str) -> None:
    error = refused(tmp_path, text)
    assert error.code == "UNKNOWN_CONFIG_KEY"
    assert says in error.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the config: "),
        ("[1, 2]", "the config: "),
        ("spark: {}", "output: Field required"),
        ("output: {path: 7}", "output.path: "),
        ("output: {path: ''}", "output.path: "),
        (SMALLEST + "evaluate: {k: {at: 5}}", "evaluate.k"),
        (SMALLEST + "evaluate: {segments: null}", "evaluate.segments: "),
        (SMALLEST + "evaluate: {k: [1.5]}", "evaluate.k"),
        (SMALLEST + "evaluate: {relevance: {threshold: high}}", "evaluate.relevance.threshold: "),
        (SMALLEST + "interactions: {}", "interactions: give either a path or a table"),
        (SMALLEST + "interactions: {path: a, table: b}", "interactions: give either a path or a table"),
        (SMALLEST + "interactions: {path: a, timestamp_unit: h}", "interactions.timestamp_unit: "),
        (SMALLEST + "truth: {subset: global_tset}", "did you mean 'global_test'?"),
        (SMALLEST + "truth: {path: t, where: [{column: a, op: like, value: b}]}", "truth.where.0.op: "),
        (SMALLEST + "truth: {path: t, where: [{column: a, op: in, value: 1}]}", "does not fit op 'in'"),
        (
            SMALLEST + "truth: {path: t, where: [{column: a, op: between, value: [1]}]}",
            "does not fit op 'bet",
        ),
        (SMALLEST + "truth: {path: t, where: [{column: a, op: is_null, value: 1}]}", "does not fit op 'is_n"),
        (SMALLEST + "truth: {path: t, where: [{column: a, op: '<'}]}", "does not fit op '<'"),
        (SMALLEST + "recommendations: {path: r, layout: wide}", "recommendations.layout: "),
        (SMALLEST + "split: {method: random}", "split.method: "),
    ],
)
def test_wrong_types_and_values(tmp_path: Path, text: str, says: str) -> None:
    error = refused(tmp_path, text)
    assert error.code == "INVALID_CONFIG"
    assert says in error.message


def test_what_is_set_below_a_mapping_of_free_names_is_one_key(tmp_path: Path) -> None:
    text = f"{SMALLEST}interactions: {{path: log}}\ntruth: {{path: t}}\nspark: {{conf: {{a.b: 1}}}}\n"
    config = read(
        tmp_path,
        text,
        "spark.conf.spark.sql.shuffle.partitions=3",
        "spark.conf.a.b=2",
        "interactions.options.parquet.a.b=x",
        "interactions.columns.user=geo.user",
        "truth.options.header=true",
        "truth.columns={user: u}",
        "evaluate.conventions={preset: spark}",
        "evaluate.conventions.gain=exp2",
        "evaluate.relevance.threshold=3",
    )
    assert config.spark.conf == {"a.b": 2, "spark.sql.shuffle.partitions": 3}
    assert config.interactions is not None
    assert config.interactions.options == {"parquet.a.b": "x"}
    assert config.interactions.columns == {"user": "geo.user"}
    assert config.truth is not None
    assert (config.truth.options, config.truth.columns) == ({"header": True}, {"user": "u"})
    assert config.evaluate.conventions == {"preset": "spark", "gain": "exp2"}
    assert config.evaluate.relevance.threshold == 3


@pytest.mark.parametrize(
    "name", ["", ".", "a.", ".a", "output.", "output..path", "spark.conf.", "spark..conf"]
)
def test_a_key_to_set_has_no_empty_part(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, SMALLEST, f"{name}=1").code == "INVALID_SETTING"


@pytest.mark.parametrize(
    ("setting", "code", "says"),
    [
        ("evaluate.metrics=[mapp]", "UNKNOWN_METRIC", "did you mean 'map'?"),
        ("evaluate.metrics=[]", "NO_METRICS", "spark-eval metrics"),
        ("evaluate.k=[0]", "INVALID_K", "from 1 to"),
        ("evaluate.k=[]", "INVALID_K", "at least one cutoff"),
        ("evaluate.k=[ten]", "INVALID_K", "from 1 to"),
        ("evaluate.conventions=sparc", "UNKNOWN_PRESET", "did you mean 'spark'?"),
        ("evaluate.conventions.gian=exp2", "UNKNOWN_CONVENTION", "did you mean 'gain'?"),
        ("evaluate.conventions.gain=exp", "INVALID_CHOICE", "did you mean 'exp2'?"),
        ("evaluate.segments=[known]", "MISSING_TRAIN", "give the table train"),
        ("evaluate.segments=[activiti]", "MISSING_USERS", "did you mean 'activity'?"),
        ("evaluate.segments=[User]", "INVALID_SEGMENT", "'User' has a reserved name"),
        ("evaluate.no_truth=keep", "INVALID_CHOICE", "allowed: drop, zero"),
        ("evaluate.checks=all", "INVALID_CHOICE", "allowed: full, hits"),
        ("split.timezone=Mars", "INVALID_TIMEZONE", "IANA"),
        ("split.local_cut=soon", "INVALID_CUT", "allowed: "),
        ("split.ranker_test_share=2", "INVALID_SPLIT", "not in (0, 1)"),
        ("split.cold_users=kepe", "INVALID_SPLIT", "did you mean 'keep'?"),
        ("evaluate.k", "INVALID_SETTING", "is not dotted.key=value"),
        ("=7", "INVALID_SETTING", "is not dotted.key=value"),
        ("output.path.deep=7", "INVALID_SETTING", "not a mapping"),
        ("evaluate.k=[1", "INVALID_YAML", "--set evaluate.k"),
        ("evalute.k=1", "UNKNOWN_CONFIG_KEY", "did you mean 'evaluate'?"),
    ],
)
def test_settings_and_choices(tmp_path: Path, setting: str, code: str, says: str) -> None:
    given = "" if setting.startswith("evaluate.conventions.") else "evaluate: {conventions: default}\n"
    error = refused(tmp_path, SMALLEST + given, setting)
    assert error.code == code
    assert says in error.message


def test_segments_of_tables_that_are_given(tmp_path: Path) -> None:
    tables = "users: {path: u, columns: {country: geo.country}}\ntrain: {subset: global_train}\n"
    names = ["country", "known", "age", "activity"]
    config = read(tmp_path, SMALLEST + tables, f"evaluate.segments={names}")
    assert config.evaluate.checked().segments == tuple(names)
    error = refused(tmp_path, SMALLEST + tables, "evaluate.segments=[country, RR_at_5]")
    assert error.code == "INVALID_SEGMENT"
    assert "rename the column with users.columns" in error.message


def test_all_that_is_wrong_comes_in_one_error(tmp_path: Path) -> None:
    error = refused(tmp_path, "output: {path: 7}\nspark: {master: 1}\ntruht: {path: t}\n")
    assert error.code == "UNKNOWN_CONFIG_KEY"
    assert all(place in error.message for place in ("truht", "output.path", "spark.master"))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"output: {path: \xe9}")
    for path in (tmp_path / "none", tmp_path, tmp_path / "latin"):
        with pytest.raises(ConfigError, match="NO_CONFIG"):
            read_config(path)


def test_a_wrong_config_leaves_with_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(SMALLEST + "evaluate: {metrics: [ndgc]}")
    with pytest.raises(SystemExit, check=lambda left: left.code == 2):
        main(["evaluate", "--config", str(path)])
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(
        "error[UNKNOWN_METRIC] unknown metric 'ndgc' in evaluate.metrics; did you mean 'ndcg'?"
    )
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("run_id", ["", "..", "../up", "a/b", "-a", "a b", "a=b", "é", "x" * 129])
def test_a_run_id_is_a_plain_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], run_id: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(SMALLEST)
    with pytest.raises(SystemExit, check=lambda left: left.code == 2):
        main(["split", "--config", str(path), f"--run-id={run_id}"])
    assert capsys.readouterr().err.startswith("error[INVALID_RUN_ID] ")


@pytest.mark.parametrize(("verb", "section"), [("split", "interactions"), ("evaluate", "recommendations")])
def test_a_verb_needs_its_section(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, section: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(SMALLEST)
    with pytest.raises(SystemExit, check=lambda left: left.code == 2):
        main([verb, "--config", str(path)])
    assert capsys.readouterr().err.startswith(f"error[MISSING_SECTION] the config has no section '{section}'")


def test_output_on_another_file_system_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("output: {path: 's3a://bucket/out'}\ninteractions: {path: log}\n")
    with pytest.raises(SystemExit, check=lambda left: left.code == 2):
        main(["split", "--config", str(path)])
    assert capsys.readouterr().err.startswith("error[UNSUPPORTED_OUTPUT] ")


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ("{}", "give either a path, or a table"),
        ("{path: out, table: lake.evals}", "give either a path, or a table"),
        ("{table: evals}", "no name of a schema"),
        ('{table: "lake.evals; drop"}', "no name of a schema"),
        ("{table: lake.evals, manifest: true}", "manifest is of a path"),
        ("{path: out, format: delta}", "format is of tables of a catalog"),
    ],
)
def test_output_is_a_path_or_a_schema(tmp_path: Path, output: str, what: str) -> None:
    assert what in str(refused(tmp_path, f"output: {output}"))
    read(tmp_path, "output: {table: lake.evals, format: delta}")


def test_a_catalog_has_no_place_for_pages(tmp_path: Path) -> None:
    assert refused(tmp_path, "output: {table: lake.evals}\nreport: true").code == "UNSUPPORTED_OUTPUT"
