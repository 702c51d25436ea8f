"""Configs and names that want to run, read, write or tell something: refused by name, without any effect."""

import io
import json
import re
import subprocess
import sys
import time
import unicodedata
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from spark_eval.cli import commands, runner
from spark_eval.errors import DataError, redacted, without_secrets

pytestmark = pytest.mark.usefixtures("engine_of_users")

OUTPUT: Final = "output: {path: OUT}\n"
LOG: Final = f"{OUTPUT}interactions: {{path: LOG, timestamp_unit: s"
LISTS: Final = f"{OUTPUT}recommendations: {{path: LISTS}}\nevaluate: "
TOUCH: Final = "__import__('os').system('touch CANARY')"
DERBY: Final = "jdbc:derby:;databaseName=CANARY;create=true"
PRIVATE: Final = "what only the driver may read"
SECRET: Final = "hunter2hunter2"
# A text of YAML and the code that it is refused with.
YAML: Final = [
    (f"output: {{path: !!python/object/apply:os.system ['touch CANARY']}}\n{OUTPUT}", "INVALID_YAML"),
    ("output: !!python/object/new:subprocess.Popen [[touch, CANARY]]\n", "INVALID_YAML"),
    ("output: {path: !!python/name:os.system }\n", "INVALID_YAML"),
    ("output: {path: !!python/module:os }\n", "INVALID_YAML"),
    ("output: {path: !include PRIVATE}\n", "INVALID_YAML"),
    ("output: {path: !!binary b3V0}\n", "INVALID_YAML"),
    ("%TAG ! tag:yaml.org,2002:python/\n---\noutput: {path: !name:os.system }\n", "INVALID_YAML"),
    (
        "a: &a [x, x]\n"
        + "".join(f"{c}: &{c} [*{b}, *{b}]\n" for b, c in zip("abcdef", "bcdefg", strict=True)),
        "INVALID_YAML",
    ),
    ("a: &a {path: OUT}\noutput:\n  <<: *a\n", "INVALID_YAML"),
    ("&a output: {path: OUT}\n", "INVALID_YAML"),
    ("output: &a {path: OUT}\n", "INVALID_YAML"),
    ("output: {path: &a OUT}\n", "INVALID_YAML"),
    ("output: {path: OUT}\ninteractions: {path: LOG}\nevaluate: {k: &a [1]}\n", "INVALID_YAML"),
    ("output: {path: ! OUT}\n", "INVALID_YAML"),
    ("%TAG ! tag:yaml.org,2002:\n---\noutput: {path: OUT}\n", "INVALID_YAML"),
    ("%TAG !e! tag:example.org,2000:\n---\noutput: {path: OUT}\n", "INVALID_YAML"),
    ("output: {path: OUT}\noutput: {path: CANARY}\n", "INVALID_YAML"),
    ("[" * 20_000, "INVALID_YAML"),
    ("{a: " * 20_000, "INVALID_YAML"),
    ("- " * 20_000, "INVALID_YAML"),
    (f"{OUTPUT}evaluate: {{k: [{'1,' * 100_000}]}}\n", "INVALID_YAML"),
    ("#" * 1_000_000, "INVALID_YAML"),
    (f"{OUTPUT}---\noutput: {{path: CANARY}}\n", "INVALID_YAML"),
    ('output: {path: "a\\uD800b"}\n', "INVALID_YAML"),
    (f"{LOG}, where: [{{column: user, op: '<', value: {'9' * 5_000}}}]}}\n", "INVALID_YAML"),
    (f"{LOG}, where: [{{column: user, op: '<', value: 9223372036854775808}}]}}\n", "INVALID_YAML"),
    (f"{LISTS}{{relevance: {{threshold: 1e999}}}}\n", "INVALID_YAML"),
    ("false: {path: OUT}\n", "INVALID_YAML"),
    ("? [a, b]\n: {path: OUT}\n", "INVALID_YAML"),
    ("\x00\x01\x02", "INVALID_YAML"),
    ('output: {path: "a\\0b"}\n', "INVALID_CONFIG"),
    ('output: {path: "a\\e[31mb"}\n', "INVALID_CONFIG"),
    (f"{LOG}, subset: no}}\n", "INVALID_CONFIG"),
    (f"{LISTS}{{k: 0x1F}}\n", "INVALID_K"),
    (f"{LISTS}{{k: 12:30:45}}\n", "INVALID_K"),
    (f"{LISTS}{{k: '{'9' * 5_000}'}}\n", "INVALID_K"),
    (f"{LISTS}{{k: \u0661}}\n", "INVALID_K"),
    (f"{LISTS}{{k: 1e3}}\n", "INVALID_CONFIG"),
    (f"{LISTS}{{relevance: {{threshold: 2024-01-01}}}}\n", "INVALID_CONFIG"),
    ("just text\n", "INVALID_CONFIG"),
    *[
        (f"{OUTPUT}interactions: {opening * depth}", "INVALID_YAML")
        for opening in ("[", "{a: ", "[{a: ", "\n - ? ", "\n ? - ", "&a [", "!a [")
        for depth in (30, 1_000, 20_000)
    ],
]
# What would be SQL, Python, a class or a file elsewhere.
CODE: Final = [
    (f"{LOG}, where: \"reflect('java.lang.System', 'getenv', 'HOME') is null\"}}\n", "INVALID_CONFIG"),
    (f"{LOG}, where: [{{column: user, op: 'is null or 1 =', value: 1}}]}}\n", "INVALID_CONFIG"),
    (f"{LOG}, where: [{{column: user, op: '==', value: {{expr: 1}}}}]}}\n", "INVALID_CONFIG"),
    (f"{LOG}, where: [{{expr: 'exists (select * from text.`PRIVATE`)'}}]}}\n", "UNKNOWN_CONFIG_KEY"),
    (f"{OUTPUT}__class__: {{__init__: {{}}}}\n", "UNKNOWN_CONFIG_KEY"),
    (f"{OUTPUT}interactions: {{table: 'text.`PRIVATE`'}}\n", "INVALID_CONFIG"),
    (f"{OUTPUT}interactions: {{table: 'log; DROP TABLE log'}}\n", "INVALID_CONFIG"),
    (f"{OUTPUT}interactions: {{table: '(select 1 as user)'}}\n", "INVALID_CONFIG"),
    (f"{OUTPUT}interactions: {{table: 'range(3)'}}\n", "INVALID_CONFIG"),
    (f'{LISTS}{{metrics: ["{TOUCH}"]}}\n', "INVALID_METRIC"),
    (f'{LISTS}{{metrics: ["ndcg(gain=os.system)@5"]}}\n', "INVALID_CHOICE"),
    (f'{LISTS}{{conventions: "{TOUCH}"}}\n', "UNKNOWN_PRESET"),
    (f"{LISTS}{{conventions: ../../PRIVATE}}\n", "UNKNOWN_PRESET"),
    (f"{LISTS}{{checks: subprocess.Popen}}\n", "INVALID_CHOICE"),
    (f"{LISTS}{{segments: ['x` from y; --']}}\n", "MISSING_USERS"),
    (f"{OUTPUT}split: {{timezone: ../../../../etc/passwd}}\n", "INVALID_TIMEZONE"),
    (f'{OUTPUT}split: {{local_cut: "{TOUCH}"}}\n', "INVALID_CUT"),
    (f"{OUTPUT}split: {{method: os.system}}\n", "INVALID_CONFIG"),
    *[
        (f"{OUTPUT}interactions: {{path: '{path}'}}\n", "UNSUPPORTED_INPUT")
        for path in (
            *(
                "http://127.0.0.1:1/log.csv",
                "https://127.0.0.1:1/log",
                "HTTP:/127.0.0.1/log",
                "ftp://127.0.0.1/a",
            ),
            *(DERBY, "jar:file:/a.jar!/b", "data:text/csv,a", "har://hdfs-nn/a", "webhdfs://127.0.0.1/a"),
        )
    ],
    *[
        (f"{LOG}, format: '{kind}', options: {{url: '{DERBY}', dbtable: t}}}}\n", "UNSUPPORTED_INPUT")
        for kind in (
            *("jdbc", "JDBC", "org.apache.spark.sql.execution.datasources.jdbc.JdbcRelationProvider"),
            *("java.lang.Runtime", "../../CANARY", ""),
        )
    ],
    (f"{LOG}, options: {{path: PRIVATE}}}}\n", "INVALID_CONFIG"),
    (f"{LOG}, options: {{parquet.crypto.factory.class: java.lang.Runtime}}}}\n", "UNSUPPORTED_INPUT"),
    (f"{LOG}, options: {{fs.file.impl: java.lang.Runtime}}}}\n", "UNSUPPORTED_INPUT"),
    ("output: {path: 's3a://bucket/out'}\ninteractions: {path: LOG}\n", "UNSUPPORTED_OUTPUT"),
    ("output: {path: 'http://127.0.0.1:1/out'}\ninteractions: {path: LOG}\n", "UNSUPPORTED_OUTPUT"),
]
SECRETS: Final = [
    f"{LOG}, options: {{password: {SECRET}}}}}\n",
    f"{LOG}, options: {{fs.s3a.secret.key: {SECRET}}}}}\n",
    f"{LOG}, options: {{fs.s3a.access.key: {SECRET}}}}}\n",
    f"{LOG}, options: {{fs.azure.account.key.mine.dfs.core.windows.net: {SECRET}}}}}\n",
    f"{LOG}, options: {{personalAccessToken: {SECRET}}}}}\n",
    f"{LOG}, options: {{credentials: {SECRET}}}}}\n",
    f"{LOG}, options: {{kafka.sasl.jaas.config: 'Login required password=\"{SECRET}\";'}}}}\n",
    f"{OUTPUT}spark: {{conf: {{spark.hadoop.fs.s3a.session.token: {SECRET}}}}}\n",
    f"{OUTPUT}spark: {{conf: {{spark.hadoop.fs.s3a.session.token: [{SECRET}]}}}}\n",
    f"{OUTPUT}interactions: {{path: 's3a://me:{SECRET}@bucket/log'}}\n",
    f"{OUTPUT}interactions: {{path: 'wasbs://box@mine.net/log?sv=1&sig={SECRET}'}}\n",
    f"{OUTPUT}interactions: {{pth: 's3a://me:{SECRET}@bucket/log'}}\n",
]
# Credentials by their form, put together here so that no scanner takes them for real ones.
LETTERS: Final = "hunter2Hunter2hunter2Hunter2hunter2Hunter2"
PEM: Final = "-----BEGIN {}PRIVATE KEY-----\n" + LETTERS + "\n-----END {}PRIVATE KEY-----\n"
FORMS: Final = {
    **{f"gh{kind}": f"gh{kind}_{LETTERS[:36]}" for kind in "pousr"},
    "github_pat": f"github_pat_{LETTERS[:22]}_{LETTERS}",
    "GitLab": f"glpat-{LETTERS[:20]}",
    **{f"Slack {kind}": f"xox{kind}-{'12' * 6}-{LETTERS}" for kind in "abeoprs"},
    "Google API": f"AIza{LETTERS[:35]}",
    "Google OAuth": f"ya29.{LETTERS}",
    "Databricks": "dapi" + "0123456789abcdef" * 2,
    "Hugging Face": f"hf_{LETTERS[:34]}",
    "npm": f"npm_{LETTERS[:36]}",
    "PyPI": f"pypi-{LETTERS}",
    "Stripe": f"sk_live_{LETTERS[:24]}",
    "AWS": "AKIA" + "HUNTER2" * 2 + "H2",
    "AWS pair": f"{'AKIA' + 'HUNTER2' * 2 + 'H2'}:{LETTERS[:38]}/+",
    "JWT": f"eyJ{LETTERS[:17]}.eyJ{LETTERS}.{LETTERS}",
    "PEM": PEM.format("", ""),
    "PEM RSA": PEM.format("RSA ", "RSA "),
    "PEM OpenSSH": PEM.format("OPENSSH ", "OPENSSH "),
    "PEM cut": PEM.format("", "").partition("-----END")[0],
    "Basic": "Basic aHVudGVyMjpodW50ZXIy",
    "header": "Authorization: Basic aHVudGVyMjpodW50ZXIy",
    "header of another scheme": f"authorization=Hunter {LETTERS}",
    "Bearer": f"Bearer {LETTERS}",
    "user in URL": f"https://ghp_{LETTERS[:36]}@host/a",
    "password in URL": f"https://me:{SECRET}@host/a",
    "password with / in URL": f"https://me:{SECRET}/x@host/a",
    "password with @ in URL": f"https://me:x@{SECRET}@host/a",
    "query": f"https://host/a?user=me&password={SECRET}",
    "JDBC": f"jdbc:sqlserver://host:1433;user=me;password={SECRET};encrypt=true",
    "JDBC, MySQL": f"jdbc:mysql://host/db?user=me&password={SECRET}",
    "JDBC, Oracle": f"jdbc:oracle:thin:me/{SECRET}@//host:1521/db",
    "ODBC": f"Server=host;Uid=me;Pwd={SECRET};",
    "Azure SAS": f"https://a.blob.core.windows.net/c?sv=2022-11-02&sr=c&sig={SECRET}%3D",
    "Azure connection": f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}==",
    "GCP key": json.dumps(
        {"type": "service_account", "private_key_id": SECRET, "private_key": PEM.format("", "")}
    ),
}
# What would give away that a piece of a credential is told.
PIECES: Final = ("hunter2", "Hunter2", "HUNTER2", "aHVudGVy", "0123456789abcdef")
# Arguments beside a config that is sound.
ARGUMENTS: Final = [
    *[
        (["--run-id", name], "INVALID_RUN_ID")
        for name in ("../../CANARY", "a/../../b", "a\n", ".a", "_a", "é", "$(a)")
    ],
    (["--set", "output=!!python/object/apply:os.system ['touch CANARY']"], "INVALID_YAML"),
    (["--set", "output.__class__.x=1"], "UNKNOWN_CONFIG_KEY"),
    (["--set", "output.path=[a]"], "INVALID_CONFIG"),
    (["--set", "evaluate.metrics.deep.er=1"], "INVALID_CONFIG"),
    *[(["--set", f"{'a.' * dots}a=1"], "INVALID_SETTING") for dots in (30, 1_000, 5_000, 100_000)],
    *[(["--set", f"output.path={opening * 5_000}"], "INVALID_YAML") for opening in ("[", "{a: ", "- ? ")],
    *[(["--set", f"split.local_cut={value}"], "INVALID_YAML") for value in ("&a 0.5", "%TAG ! x:\n--- 0.5")],
    (["--config", "/dev/zero"], "INVALID_YAML"),
    (["--config", "HOME"], "NO_CONFIG"),
    (["--config", "PICKLE"], "NO_CONFIG"),
    (["--eval", TOUCH], "USAGE"),
]
SECRET_ARGUMENTS: Final = [
    ["--set", f"interactions.options.password={SECRET}"],
    ["--set", f"interactions.path='https://me:{SECRET}@host/log'"],
]
CASES: Final = [
    *[(text, [], code) for text, code in (*YAML, *CODE)],
    *[(text, [], "SECRET_IN_CONFIG") for text in SECRETS],
    *[("SOUND", arguments, code) for arguments, code in ARGUMENTS],
    *[("SOUND", arguments, "SECRET_IN_CONFIG") for arguments in SECRET_ARGUMENTS],
]
SOUND: Final = f"{LOG}}}\nsplit: {{local_cut: 0.5, global_cut: 0.8}}\n"


@dataclass(frozen=True)
class Answer:
    """What a call of the program left, and the CPU time that it took."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def error(self) -> str:
        """The named code of the only line on stderr."""
        [line] = self.err.splitlines()
        return line.removeprefix("error[").partition("]")[0]


class Home:
    """A folder with a log, a private file, and places for what must not come to be."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.canary = folder, folder / "out", folder / "canary"
        (folder / "private").write_text(PRIVATE)
        (folder / "pickle").write_bytes(b"\x80\x04\x95cos\nsystem\n")
        rows = [(user, item, 86_400 * item) for user in range(4) for item in range(10)]
        pd.DataFrame(rows, columns=["user", "item", "timestamp"]).to_parquet(folder / "log.parquet")
        self.write("lists.parquet", ["als"])

    def write(self, name: str, models: Sequence[str]) -> None:
        """Lists of these models."""
        rows = [(model, user, item, -item) for model in models for user in range(4) for item in range(3)]
        lists = pd.DataFrame(rows, columns=["model", "user", "item", "score"])
        lists.to_parquet(self.folder / name, index=False)

    def filled(self, text: str) -> str:
        """The text with the paths of this folder."""
        places = {"OUT": self.out, "CANARY": self.canary, "PRIVATE": self.folder / "private"}
        places |= {"LOG": self.folder / "log.parquet", "LISTS": self.folder / "lists.parquet"}
        places |= {"HOME": self.folder, "PICKLE": self.folder / "pickle"}
        for name, place in places.items():
            text = re.sub(f"{name}(?! KEY)", str(place), text)
        return text

    def call(self, verb: str, text: str, *arguments: str) -> Answer:
        """The program in this process, on a config of this text."""
        config = self.folder / "config.yaml"
        config.write_text(self.filled(text), encoding="utf-8")
        given = [verb, "--config", str(config), *map(self.filled, arguments)]
        out, err, start = io.StringIO(), io.StringIO(), time.process_time()
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
            commands.main(given)
        return Answer(int(left.value.code or 0), out.getvalue(), err.getvalue(), time.process_time() - start)

    def files(self) -> set[str]:
        """Everything below, less the config."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")} - {"config.yaml"}

    def content(self) -> str:
        """All that is written below the output, as text, names included."""
        found = [path for path in self.out.rglob("*") if path.is_file()]
        return "".join(f"{path} {path.read_bytes().decode('latin-1')}" for path in found)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for a session is too late to refuse a config."""

    def refuse(*_: object) -> Any:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr(runner, "open_session", refuse)


@pytest.mark.usefixtures("no_spark")
def test_hostile_configs(home: Home) -> None:
    before, slowest = home.files(), 0.0
    home.call("split", "")  # imports
    for text, arguments, code in CASES:
        answer = home.call("split", SOUND if text == "SOUND" else text, *arguments)
        case = f"{text[:200]} {arguments}: {answer.err[:300]}"
        assert (answer.code, answer.error) == (2, code), case
        assert PRIVATE not in answer.err, case
        assert SECRET not in answer.err, case
        assert answer.out == "", case
        assert answer.err.rstrip("\n").isprintable(), case
        assert answer.seconds < 1, case
        assert home.files() == before, case
        slowest = max(slowest, answer.seconds)
    print(f"{len(CASES)} hostile configs: all refused by name, none with an effect, {slowest:.2f} s at most")
    assert len(CASES) >= 100


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["", "debug"])
def test_a_planted_secret_is_nowhere(
    home: Home, debug: list[str], log_format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cases = [(text, list[str]()) for text in SECRETS] + [(SOUND, given) for given in SECRET_ARGUMENTS]
    # Neither does what YAML says of a text show it.
    cases += [(f"{OUTPUT}spark: {{password: {SECRET}: {SECRET}}}\n", [])]
    cases += [(SOUND, ["--set", f"spark.conf={{password: {SECRET}: x}}"])]
    for text, arguments in cases:
        answer = home.call("split", text, *arguments, "--log-format", log_format, *debug)
        assert answer.code == 2
        assert ("Traceback" in answer.err) == bool(debug)
        assert SECRET not in answer.out + answer.err + "".join(capfd.readouterr())
    assert not home.out.exists()


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_credential_is_known_by_its_form(home: Home, form: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Refused wherever it stands in a config, and hidden in what is told and recorded of others."""
    quoted = json.dumps(form)
    texts = [
        f"{LOG}, options: {{a: {quoted}}}}}\n",
        f"{LOG}, options: {{{quoted}: x}}}}\n",
        f"{OUTPUT}interactions: {{path: {quoted}}}\n",
        f"{OUTPUT}spark: {{conf: {{a.b: {json.dumps(f'-Dx={form} -Dy=z')}}}}}\n",
        f"{OUTPUT}truth: {{path: LOG, where: [{{column: a, op: in, value: [1, {quoted}]}}]}}\n",
    ]
    cases = [(text, list[str]()) for text in texts]
    cases += [(SOUND, ["--set", f"interactions.options.a={quoted}"])]
    for text, arguments in cases:
        answer = home.call("split", text, *arguments, "--debug")
        assert (answer.code, answer.err.splitlines()[-1][:24]) == (2, "error[SECRET_IN_CONFIG] "), answer.err
        shown = answer.out + answer.err + "".join(capfd.readouterr())
        assert not any(piece in shown for piece in PIECES), shown
    record = without_secrets({"a": [form, {"b": f"x {form} y"}]})
    error = str(DataError("A", f"{'x' * 3_990} {form}")) + str(DataError("A", f"see {form}."))
    for shown in (str(record), error, redacted(redacted(form))):
        assert not any(piece in shown for piece in PIECES), shown


def test_credentials_are_looked_for_in_linear_time() -> None:
    heads = [form[:size] for form in FORMS.values() for size in (4, 12, len(form))]
    for head in {*heads, "://a:", "://", "Basic ", "-----BEGIN ", "eyJ", "jdbc:oracle:a:", "secret", "AKIA"}:
        for text in (head * (20_000 // len(head)), head + "a" * 20_000, head + "-" * 20_000):
            start = time.process_time()
            redacted(text)
            assert time.process_time() - start < 0.5, head


def test_secrets_of_the_environment_are_nowhere(
    home: Home, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "PASSWORD"):
        monkeypatch.setenv(name, SECRET)
    spark.conf.set("fs.s3a.secret.key", SECRET)
    try:
        done = home.call("split", SOUND, "--run-id", "a", "--log-format", "json", "--debug")
        failed = home.call("split", SOUND.replace("LOG", "NONE"), "--run-id", "b", "--debug")
    finally:
        spark.conf.unset("fs.s3a.secret.key")
    assert (done.code, failed.code) == (0, 3)
    assert SECRET not in done.out + done.err + failed.out + failed.err + "".join(capfd.readouterr())
    assert SECRET not in home.content()


def test_messages_of_other_programs_are_shown_without_secrets(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = (
        f"no answer from jdbc:x://me:{SECRET}@host?sig={SECRET} (fs.s3a.secret.key={SECRET}, Bearer {SECRET})"
    )

    def fail(*_: object) -> Any:
        raise RuntimeError(told)

    monkeypatch.setattr(runner, "open_session", fail)
    for given in ([], ["--debug"], ["--debug", "--log-format=json"]):
        answer = home.call("split", SOUND, "--engine", "spark", *given)
        assert answer.code == 1
        assert "no answer from jdbc:x://me:***@host?sig=***" in answer.err
        assert SECRET not in answer.out + answer.err


@pytest.mark.parametrize(
    "plain",
    [
        *("abfss://box@mine.dfs.core.windows.net/log", "hdfs://nn:8020/user/a@b", "ndcg(gain=exp2)@10"),
        *("run '2024-03-01' of model 'als: 7'", "s3a://bucket/key=7/part", "a token is no secret"),
        *("Basic recommendations of 12 items", "basic Popularity", "Basic authentication", "ghp_small"),
        *("hdfs://nn:8020/user/a@b", "http://[::1]:8020/a@b", "xox-trot", "eyJ.parquet", "task-sk-learn"),
        *("s3://bucket/eyJ0/part.0.parquet", "hf_hub", "npm_rank", "AKIA", "the authorization: none"),
        *("da39a3ee5e6b4b0d3255bfef95601890afd80709", "123e4567-e89b-12d3-a456-426614174000"),
        *("-----BEGIN PUBLIC KEY-----", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "jdbc:oracle:thin:@//host:1521/db"),
    ],
)
def test_what_is_no_secret_stays(plain: str) -> None:
    assert redacted(plain) == plain


def test_keys_that_only_sound_like_secrets(home: Home) -> None:
    conf = [
        *("spark.hadoop.hadoop.security.credential.provider.path", "spark.kerberos.keytab"),
        *(
            "spark.network.crypto.keyLength",
            "spark.sql.ansi.enforceReservedKeywords",
            "spark.authenticate.enabled",
        ),
    ]
    options = ["fs.s3a.aws.credentials.provider.path", "credentialsFile", "header", "primitivesAsString"]
    tree = {
        "output": {"path": "OUT"},
        "spark": {"conf": dict.fromkeys(conf, "x")},
        "truth": {"path": "LOG", "options": dict.fromkeys(options, "x"), "columns": {"user": "user_token"}},
        "users": {"path": "LOG", "columns": {"token": "a"}},
    }
    assert home.call("status", json.dumps(tree)).code == 0


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("place", ["metrics", "accounting/run_id=a", "_staging", "_commits"])
@pytest.mark.parametrize("is_there", [True, False])
def test_tables_stay_below_the_output(home: Home, place: str, is_there: bool) -> None:
    (home.out / place).parent.mkdir(parents=True)
    if is_there:
        home.canary.mkdir()
    (home.out / place).symlink_to(home.canary)
    before = home.files()
    answer = home.call("split", SOUND, "--run-id", "a")
    assert (answer.code, answer.error) == (2, "OUTSIDE_OUTPUT")
    assert home.files() == before


@pytest.mark.parametrize(
    ("models", "code"),
    [
        (["1", "01"], "INVALID_MODEL_NAME"),
        (["2024-01-01", "2024-01-01 00:00:00"], "INVALID_MODEL_NAME"),
        (["als", "\x1b[31m"], "INVALID_MODEL_NAME"),
        (["é", unicodedata.normalize("NFD", "é")], "MODELS_ALIKE"),
    ],
)
@pytest.mark.parametrize("options", ["{}", "{mergeSchema: true}"], ids=["by workers", "through Spark"])
@pytest.mark.usefixtures("spark")
def test_models_that_readers_would_mangle(home: Home, models: list[str], code: str, options: str) -> None:
    home.write("lists.parquet", models)
    before = home.files()
    lists = f"recommendations: {{path: LISTS, options: {options}}}\n"
    answer = home.call("evaluate", f"{OUTPUT}{lists}truth: {{path: LOG}}\n")
    assert (answer.code, answer.error) == (3, code)
    assert answer.err.rstrip("\n").isprintable()
    assert home.files() == before


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("reader", ["workers", pytest.param("spark", marks=pytest.mark.slow)])
def test_names_of_columns_are_only_names(home: Home, reader: str) -> None:
    names = {
        "model": "(select 1)",
        "user": "u`; DROP TABLE log; --",
        "item": "a.b",
        "score": "reflect('java.lang.Runtime', \"x\")",
    }
    pd.read_parquet(home.folder / "lists.parquet").rename(columns=names).to_parquet(
        home.folder / "odd.parquet"
    )
    log = pd.read_parquet(home.folder / "log.parquet").rename(columns=names)
    log.assign(**{"' or 1=1 --": 1, "名 🙂": 2}).to_parquet(home.folder / "log.parquet")
    columns = {ours: names[ours] for ours in ("user", "item")}
    truth = {"path": "LOG", "columns": columns, "where": [{"column": names["item"], "op": "<", "value": 9}]}
    tree = {
        "output": {"path": "OUT"},
        "interactions": {**truth, "timestamp_unit": "s"},
        "split": {"local_cut": 0.5, "global_cut": 0.8},
        "recommendations": {"path": str(home.folder / "odd.parquet"), "columns": names},
        "truth": truth,
    }
    assert home.call("split", json.dumps(tree), "--run-id", "a").code == 0
    assert {"' or 1=1 --", "名 🙂"} < set(pd.read_parquet(home.out / "splits").columns)
    given = [] if reader == "workers" else ["--set", "recommendations.options={mergeSchema: true}"]
    answer = home.call("evaluate", json.dumps(tree), "--run-id", "a", *given)
    assert answer.code == 0, answer.err
    metrics = pd.read_parquet(home.out / "metrics").query("metric == 'hit_rate' and k == 1")
    assert list(metrics["value"]) == [1.0]


def test_a_local_session_runs_no_sql_of_files_and_calls_no_methods(home: Home, spark: SparkSession) -> None:
    for text, refusal in (
        ("reflect('java.lang.System', 'getenv', 'HOME')", "RESTRICTED_MODE"),
        (f"(select max(value) from text.`{home.folder / 'private'}`)", "TABLE_OR_VIEW_NOT_FOUND"),
    ):
        with pytest.raises(Exception, match=refusal):
            spark.range(1).selectExpr(text)


@pytest.mark.slow
def test_settings_of_spark_are_no_shell(home: Home) -> None:
    hostile = "-Dx=$(touch${IFS}CANARY)`touch${IFS}CANARY`;touch${IFS}CANARY"
    conf = {"spark.driver.extraJavaOptions": hostile, "spark.app.id": hostile, "spark.driver.memory": "1g"}
    tree = {"output": {"path": "OUT"}, "spark": {"master": "local[1]", "conf": conf}}
    (home.folder / "config.yaml").write_text(home.filled(json.dumps(tree)))
    code = "from spark_eval.cli.commands import main; main(['validate', '--config', 'config.yaml'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "inputs checked: none" in done.stdout, done.stderr
    assert not home.canary.exists()
