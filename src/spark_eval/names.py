"""Names that become folders: untrusted data until checked."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from spark_eval.errors import ConfigError, DataError

RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# A model names a folder, in which Spark writes some characters as three; file systems allow 255 bytes.
MAX_MODEL_BYTES: Final = 200
WRITTEN_AS_THREE: Final = re.compile(r"""["#%'*/:=?\\{\[\]^]""")
CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# What readers of a folder may take for something else than text: Java knows 1d, 0x1p3, digits of all scripts.
TAKEN_FOR_A_VALUE: Final = re.compile(
    r"\s*[-+]?(NaN|Infinity|((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|0x[0-9a-f]*\.?[0-9a-f]*p[-+]?\d+)[df]?)\s*"
    r"|(\d+-\d+-\d+[ T])?\d+:\d+:\d+(\.\d+)?",
    re.IGNORECASE,
)
# Numbers that come back as they were written.
INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
# What Spark takes for a pattern in a path that it reads.
PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
# So many are named where all of them would be too long to read.
MOST_SHOWN: Final = 5
# What Spark calls the folder of null and of the empty name.
NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"


def check_run_id(run_id: str) -> str:
    """Return the id itself, if it is a plain name; raise ConfigError INVALID_RUN_ID otherwise."""
    if not RUN_ID.fullmatch(run_id):
        allowed = "up to 128 letters, digits, '.', '_' and '-', the first a letter or digit"
        raise ConfigError("INVALID_RUN_ID", f"run id {run_id!r}; allowed: {allowed}")
    return run_id


def model_faults(names: Sequence[str], source: str = "recommendations") -> list[DataError]:
    """Return the faults of models that cannot have a folder of their own, or be read under their names."""
    faults, alike = [], dict[str, str]()
    for name in names:
        length = len(name.encode()) + 2 * len(WRITTEN_AS_THREE.findall(name))
        if name in ("", NO_NAME) or length > MAX_MODEL_BYTES or CONTROL_CHARACTER.search(name):
            allowed = f"1 to {MAX_MODEL_BYTES} bytes, of which '/', '=', '%' and their like take three"
            message = f"{source}: model {name[:MAX_MODEL_BYTES]!r}; allowed: {allowed}"
            faults.append(DataError("INVALID_MODEL_NAME", f"{message}, no control character, not {NO_NAME}"))
        elif TAKEN_FOR_A_VALUE.fullmatch(name) and not INTEGER.fullmatch(name):
            message = f"{source}: model {name!r}; readers of its folder may take it for a number or a time, "
            message += "such as 01 for 1 and 1.10 for 1.1; begin it with a letter"
            faults.append(DataError("INVALID_MODEL_NAME", message))
        other = alike.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
        if other != name:
            message = (
                f"{source}: models {other!a} and {name!a} differ by case or by the form of an accent only"
            )
            hint = "which not every file system tells apart; rename one"
            faults.append(DataError("MODELS_ALIKE", f"{message}, {hint}"))
    return faults


def literal(path: str) -> str:
    """Return a path for Spark's reader that names one place, whatever characters it holds."""
    return PATTERN.sub(r"\\\g<0>", path)


def folder_name(model: str) -> str:
    """Return a checked name as Spark writes it in a partition's folder."""
    return WRITTEN_AS_THREE.sub(lambda match: f"%{ord(match[0]):02X}", model)


def first_few(texts: Sequence[str], joint: str = ", ") -> str:
    """Return the first of several texts, and how many more there are."""
    more = f" and {len(texts) - MOST_SHOWN} more" if texts[MOST_SHOWN:] else ""
    return f"{joint.join(texts[:MOST_SHOWN])}{more}"


def models_shown(models: Sequence[str]) -> str:
    """Return how many models there are, and the names of the first ones."""
    return f"{len(models)} model{'' if len(models) == 1 else 's'} ({first_few(models)})"


def quoted(name: str) -> str:
    """Return a column's name as Spark takes it literally, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"
