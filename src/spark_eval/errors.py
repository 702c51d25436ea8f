"""Errors for users, each one line: ``error[NAMED_CODE] what is wrong, where, how to fix it``.

The class decides what a scheduler should do (its ``exit_code``); the code tells what happened.
"""

import difflib
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeVar

# Maximum length of a message, which may quote input of any size.
LONGEST: Final = 4_000
Made = TypeVar("Made")
Member = TypeVar("Member", bound=StrEnum)

# Texts of errors that want of memory causes, and that are no MemoryError; threads and libraries raise them.
NO_MEMORY: Final = (
    "can't start new thread",
    "Failed to launch worker thread",
    "std::bad_alloc",
    "failed to map segment",
    "Cannot allocate memory",
)
HIDDEN: Final = "***"
NAMES: Final = r"pass(?:word|wd|phrase)|secret|token|(?:access|account|api|private|encryption)[._-]?key"
# Keys such as fs.s3a.secret.key, sfPassword, fs.azure.account.key.ACCOUNT, fs.azure.sas.CONTAINER.
SECRET_KEY: Final = re.compile(
    rf"(?i){NAMES}|credentials?$|(^|[._-])(sas|pwd)($|[._-])|(?<!security\.)authorization$"
)
# Endings of such keys whose value is not a secret: where a secret is, who provides it, its length.
POINTER: Final = re.compile(r"(?i)(file|path|name|provider|class|type|url|enabled|length|timeout)$")
PRIVATE_KEY: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
# Time is proportional to the length of the text. Private keys are first: later patterns match words in them.
SECRETS: Final = (
    re.compile(rf"(?s)(?P<before>)-----BEGIN {PRIVATE_KEY}.*?(?:-----END {PRIVATE_KEY}|\Z)"),
    # user:password@host, but not host:port/path@; user/password@host as Oracle has it
    re.compile(r"(?P<before>://[^\s/:@\[]*:)(?!\d{1,5}(?:[/\s]|$))(?:[^\s/]{1,256}|[^\s@]{1,256})(?=@)"),
    re.compile(r"(?i)(?P<before>jdbc:oracle:\w{1,9}:[^\s/@:]{1,80}/)[^\s@]{1,256}(?=@)"),
    re.compile(
        rf"(?i)(?P<before>(?:(?:{NAMES})[\w.-]{{0,80}}|\b(?:sig|pwd|x-amz-[\w-]{{1,40}}))[\"']?\s*[=:]\s*[\"']?)"
        r"[^\s\"',;&})]+"
    ),
    re.compile(
        r"(?i)(?P<before>\bauthorization[\"']?\s*[=:]\s*[\"']?(?:[a-z][\w-]{0,40} )?)[^\s\"',;&})]{8,}"
    ),
    re.compile(r"(?i)(?P<before>\bbearer )[\w.~+/=-]{8,}"),
    # base64 of user:password, no word of English
    re.compile(r"(?P<before>\b[Bb](?:asic|ASIC) )(?=[\w+/]*(?:[a-z][A-Z]|[0-9=]))[\w+/]{8,}={0,2}"),
    # AWS: an access key, and the secret that follows it
    re.compile(r"(?P<before>\b)(AKIA|ASIA)[0-9A-Z]{16}\b(?:[\s:,;/|\"']{1,4}[\w/+]{40}(?![\w/+]))?"),
    # GitHub, GitLab, Slack, Google, Databricks, Hugging Face, npm, PyPI, Stripe, OpenAI; JSON Web Tokens
    re.compile(
        r"(?P<before>(?<![A-Za-z0-9]))(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
        r"|(?:xox[a-z]|xapp)-[\w-]{8,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|dapi[0-9a-f]{32}|hf_[A-Za-z0-9]{30,}"
        r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}|[sr]k_live_[A-Za-z0-9]{16,}|sk-[\w-]{30,})"
    ),
    re.compile(r"(?P<before>(?<![\w-]))eyJ[\w-]{6,}\.[\w-]{6,}[\w.-]*"),
)


class SparkEvalError(Exception):
    """Base class of named errors.

    ``code`` is a stable name in UPPER_SNAKE, ``message`` one line without secrets, and ``exit_code`` the exit
    code of ``spark-eval``.

    Args:
        code: The name of the error.
        message: What was found, where, and how to fix it.

    Examples:
        >>> try:
        ...     raise ConfigError("UNKNOWN_METRIC", "unknown metric 'ndgc' in metrics; did you mean 'ndcg'?")
        ... except SparkEvalError as error:
        ...     print(error.code, error.exit_code)
        UNKNOWN_METRIC 2
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = escape_control_characters(redacted(" ".join(message.split()))[:LONGEST])
        super().__init__(code, message)

    def __str__(self) -> str:
        return f"error[{self.code}] {self.message}"

    @property
    def trace(self) -> str:
        """The full traceback."""
        return "".join(traceback.format_exception(self))

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows: the error, and how to print the trace."""
        return [str(self), "(the whole trace: import sys; print(sys.last_value.trace))"]


class EnvironmentFault(SparkEvalError):
    """The machine lacks something for now (memory, space, a reachable cluster): exit 1, a retry may help."""


class SetupError(EnvironmentFault):
    """The machine lacks what it will lack the next time as well (a library, a permission): exit 2, stop."""

    exit_code = 2


class ConfigError(SparkEvalError):
    """The config or the command line is wrong: exit 2, stop."""

    exit_code = 2

    @classmethod
    def unknown(cls, code: str, kind: str, name: object, known: Iterable[str], where: str) -> "ConfigError":
        """Return the error for an unknown name, with the nearest known name."""
        return cls(code, f"unknown {kind} {name!r} in {where}; {nearest(str(name), known)}")


class DataError(SparkEvalError):
    """The data breaks the contract: exit 3, nothing was published.

    Faults found together are one error: it has the code of the first, and the message lists all.
    """

    exit_code = 3

    @classmethod
    def raise_all(cls, faults: "Sequence[DataError]") -> None:
        """Raise one error for all faults, if there are any."""
        if faults:
            more = "".join(f"; also [{fault.code}] {fault.message}" for fault in faults[1:])
            raise cls(faults[0].code, faults[0].message + more)


class BusyError(SparkEvalError):
    """Another live attempt holds this run: exit 4, retry later."""

    exit_code = 4


class GateFailure(SparkEvalError):
    """A gate failed: exit 5. The run is published, and a retry gives the same result: alert."""

    exit_code = 5


def collect_errors(makers: Mapping[str, Callable[[], Made]]) -> dict[str, Made]:
    """Call all makers; raise the DataErrors of all of them as one."""
    made, faults = {}, []
    for name, make in makers.items():
        try:
            made[name] = make()
        except DataError as fault:
            faults.append(fault)
    DataError.raise_all(faults)
    return made


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'?``, or the list of allowed values."""
    allowed = sorted(map(str, known))  # also those of an enumeration
    by_case = {one.casefold(): one for one in allowed}
    close = difflib.get_close_matches(name.casefold(), by_case, n=1)
    return f"did you mean {by_case[close[0]]!r}?" if close else f"allowed: {', '.join(allowed) or 'none'}"


def parse_choice(choices: type[Member], value: str, where: str) -> Member:
    """Return the member of an enumeration with this value; raise ConfigError INVALID_CHOICE otherwise."""
    for member in choices:
        if member == value:
            return member
    raise ConfigError.unknown("INVALID_CHOICE", "choice", value, choices, where)


def escape_control_characters(text: str) -> str:
    """Escape characters that could move a cursor or reverse the direction of writing."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def is_secret(key: str) -> bool:
    """Return True if the value of a key is a secret."""
    return bool(SECRET_KEY.search(key)) and not POINTER.search(key)


def redacted(text: str) -> str:
    """Hide each credential in a text."""
    for secret in SECRETS:
        text = secret.sub(rf"\g<before>{HIDDEN}", text)
    return text


def without_secrets(tree: Any) -> Any:
    """Hide each secret in nested mappings and lists."""
    match tree:
        case str():
            return redacted(tree)
        case list():
            return [without_secrets(value) for value in tree]
        case Mapping():
            return {
                key: HIDDEN
                if is_secret(key) and isinstance(value, str | int | float)
                else without_secrets(value)
                for key, value in tree.items()
            }
    return tree


def lacks_memory(error: Exception) -> bool:
    """Return True if this process has asked for memory in vain, for itself, a thread or a library."""
    return isinstance(error, MemoryError) or any(phrase in str(error) for phrase in NO_MEMORY)


def raise_if_of_machine(error: Exception, path: str) -> None:
    """Raise what the content of a file cannot explain: want of memory, and SetupError NO_PERMISSION."""
    if lacks_memory(error):
        raise error
    if isinstance(error, PermissionError):
        message = f"{path!r} may not be read; check permissions and mounts"
        raise SetupError("NO_PERMISSION", message) from error
