"""Names that become folders: untrusted data until checked."""

import re
from collections.abc import Sequence
from typing import Final

from spark_eval.errors import ConfigError, DataError

RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# A model names a folder, in which Spark writes some characters as three; file systems allow 255 bytes.
MAX_MODEL_BYTES: Final = 200
WRITTEN_AS_THREE: Final = re.compile(r"""["#%'*/:=?\\{\[\]^]""")
CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# What Spark calls the folder of null and of the empty name.
NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"


def check_run_id(run_id: str) -> str:
    """The id itself, if it is a plain name; ConfigError INVALID_RUN_ID otherwise."""
    if not RUN_ID.fullmatch(run_id):
        allowed = "up to 128 letters, digits, '.', '_' and '-', the first a letter or digit"
        raise ConfigError("INVALID_RUN_ID", f"run id {run_id!r}; allowed: {allowed}")
    return run_id


def model_faults(names: Sequence[str]) -> list[DataError]:
    """Faults of models that could not have a folder of their own: it would be null, or fail late."""
    faults = []
    for name in names:
        length = len(name.encode()) + 2 * len(WRITTEN_AS_THREE.findall(name))
        if name in ("", NO_NAME) or length > MAX_MODEL_BYTES or CONTROL_CHARACTER.search(name):
            message = (
                f"recommendations: model {name[:MAX_MODEL_BYTES]!r}; allowed: 1 to {MAX_MODEL_BYTES} bytes, "
                f"of which '/', '=', '%' and their like take three, no control character, not {NO_NAME}"
            )
            faults.append(DataError("INVALID_MODEL_NAME", message))
    return faults


def folder_name(model: str) -> str:
    """A checked name as Spark writes it in a partition's folder."""
    return WRITTEN_AS_THREE.sub(lambda found: f"%{ord(found[0]):02X}", model)
