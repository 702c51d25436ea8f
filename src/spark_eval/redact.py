"""What looks like a secret, by its key or by its form, and how all that is said or written goes without."""

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "***"
NAMES: Final = r"pass(?:word|wd|phrase)|secret|token|(?:access|account|api|private|encryption)[._-]?key"
# Keys such as fs.s3a.secret.key, sfPassword, fs.azure.account.key.ACCOUNT, fs.azure.sas.CONTAINER.
SECRET_KEY: Final = re.compile(rf"(?i){NAMES}|credentials?$|(^|[._-])(sas|pwd)($|[._-])")
# What such a key ends with where its value is none: the place of a secret, who knows it, how long it is.
POINTER: Final = re.compile(r"(?i)(file|path|name|provider|class|type|url|enabled|length|timeout)$")
# Each takes time in proportion to the text, whatever stands in it.
SECRETS: Final = (
    re.compile(r"(?P<kept>://[^\s/:@]*:)[^\s/@]+(?=@)"),  # user:password@host
    re.compile(
        rf"(?i)(?P<kept>(?:(?:{NAMES})[\w.-]{{0,80}}|\b(?:sig|pwd|x-amz-[\w-]{{1,40}}))[\"']?\s*[=:]\s*[\"']?)"
        r"[^\s\"',;&})]+"
    ),
    re.compile(r"(?i)(?P<kept>\bbearer )[\w.~+/=-]{8,}"),
    re.compile(r"(?P<kept>\b)(AKIA|ASIA)[0-9A-Z]{16}\b"),
)


def is_secret(key: str) -> bool:
    """Whether the value under a key is a secret."""
    return bool(SECRET_KEY.search(key)) and not POINTER.search(key)


def redacted(text: str) -> str:
    """The text, each credential in it hidden."""
    for secret in SECRETS:
        text = secret.sub(rf"\g<kept>{HIDDEN}", text)
    return text


def without_secrets(tree: Any) -> Any:
    """The same mappings and lists, each secret in them hidden."""
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
