"""Names of runs, models, columns and folders; untrusted until checked."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from spark_eval.errors import ConfigError, DataError

RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# A model names a folder; Spark escapes some characters as three, and file systems allow 255 bytes.
MAX_MODEL_BYTES: Final = 200
WRITTEN_AS_THREE: Final = re.compile(r"""["#%'*/:=?\\{\[\]^]""")
CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Names that readers may parse as values other than text: Java accepts 1d, 0x1p3, digits of all scripts.
TAKEN_FOR_A_VALUE: Final = re.compile(
    r"\s*[-+]?(NaN|Infinity|((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|0x[0-9a-f]*\.?[0-9a-f]*p[-+]?\d+)[df]?)\s*"
    r"|(\d+-\d+-\d+[ T])?\d+:\d+:\d+(\.\d+)?",
    re.IGNORECASE,
)
# Integers that are read back as they were written.
INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
# Pattern characters in a path that Spark reads.
PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
# Between a model and its repeat; neither name has a control character.
REPEAT_MARK: Final = "\x1f"
# Maximum number of names in a message.
MOST_SHOWN: Final = 5
# Spark's folder for null and for the empty name.
NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"


def check_run_id(run_id: str) -> str:
    """Return the run id if it is valid; raise ConfigError INVALID_RUN_ID otherwise."""
    if not RUN_ID.fullmatch(run_id):
        allowed = "up to 128 letters, digits, '.', '_' and '-', the first a letter or digit"
        raise ConfigError("INVALID_RUN_ID", f"run id {run_id!r}; allowed: {allowed}")
    return run_id


def model_faults(names: Sequence[str], source: str = "recommendations") -> list[DataError]:
    """Return errors for models whose names are invalid as folders, ambiguous to readers, or too similar."""
    faults, alike = [], dict[str, str]()
    for name in names:
        length = len(name.encode()) + 2 * len(WRITTEN_AS_THREE.findall(name))
        if name in ("", NO_NAME) or length > MAX_MODEL_BYTES or CONTROL_CHARACTER.search(name):
            allowed = f"1 to {MAX_MODEL_BYTES} bytes, counting '/', '=', '%' and similar as three"
            message = f"{source}: model {name[:MAX_MODEL_BYTES]!r}; allowed: {allowed}"
            faults.append(DataError("INVALID_MODEL_NAME", f"{message}, no control character, not {NO_NAME}"))
        elif TAKEN_FOR_A_VALUE.fullmatch(name) and not INTEGER.fullmatch(name):
            message = f"{source}: model {name!r}; readers of its folder may parse it as a number or a time, "
            message += "such as 01 for 1 and 1.10 for 1.1; begin it with a letter"
            faults.append(DataError("INVALID_MODEL_NAME", message))
        other = alike.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
        if other != name:
            message = (
                f"{source}: models {other!a} and {name!a} differ only by case or by the form of an accent"
            )
            hint = "and some file systems do not distinguish them; rename one"
            faults.append(DataError("MODELS_ALIKE", f"{message}, {hint}"))
    return faults


def split_repeat(name: str) -> tuple[str, str | None]:
    r"""Return the model and the repeat of a name of both; without a repeat the name is the model's.

    >>> split_repeat("als\x1fseed 1"), split_repeat("als")
    (('als', 'seed 1'), ('als', None))
    """
    model, mark, repeat = name.partition(REPEAT_MARK)
    return model, repeat if mark else None


def repeat_name(model: str, repeat: str) -> str:
    """Return the name of both a model and its repeat; see ``split_repeat``."""
    return f"{model}{REPEAT_MARK}{repeat}"


def repeat_faults(names: Sequence[str]) -> list[DataError]:
    """Return errors for repeats with empty names or control characters, of names of models and repeats."""
    faults = []
    for name in names:
        model, repeat = split_repeat(name)
        if repeat == "" or CONTROL_CHARACTER.search(repeat or ""):
            message = f"recommendations of model {model!r}: repeat {repeat!r}"
            faults.append(DataError("INVALID_REPEAT", f"{message}; allowed: text without control characters"))
    return faults


def literal_path(path: str) -> str:
    """Escape the pattern characters of a path for Spark's reader."""
    return PATTERN.sub(r"\\\g<0>", path)


def folder_name(model: str) -> str:
    """Return a checked model name as Spark writes it in a partition's folder."""
    return WRITTEN_AS_THREE.sub(lambda match: f"%{ord(match[0]):02X}", model)


def summarize_names(texts: Sequence[str], joint: str = ", ") -> str:
    """Join the first few texts, with the number of the others."""
    more = f" and {len(texts) - MOST_SHOWN} more" if texts[MOST_SHOWN:] else ""
    return f"{joint.join(texts[:MOST_SHOWN])}{more}"


def models_shown(models: Sequence[str]) -> str:
    """Return the number of models and the names of the first ones."""
    return f"{len(models)} model{'' if len(models) == 1 else 's'} ({summarize_names(models)})"


def quote_column(name: str) -> str:
    """Quote a column's name for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: ``1 pair``, ``2,000 pairs``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
