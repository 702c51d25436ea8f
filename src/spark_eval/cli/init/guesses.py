"""Guess the columns of a table from their names, their types and a few thousand rows.

Every guess is reported with its reason. If no column fits, an error is raised.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.errors import DataError
from spark_eval.schema import (
    FEATURES,
    FOLD,
    GROUPS,
    ITEM,
    LABEL,
    MODEL,
    RANK,
    RELEVANCE,
    SCORE,
    TIMESTAMP,
    USER,
    VECTOR,
    WEIGHT,
)
from spark_eval.splits.rules.moments import EPOCH, FIRST_YEAR, LAST_YEAR, UNITS

# Column names of well-known data sets and libraries, without case and punctuation; likelier names first.
SYNONYMS: Final[Mapping[str, str]] = {
    USER: "user userid uid useruid customer customerid custid visitor visitorid member memberid account "
    "accountid client clientid buyer buyerid reviewer reviewerid person personid profileid subscriberid "
    "cookieid deviceid msno session sessionid",
    ITEM: "item itemid iid movie movieid product productid prodid article articleid asin parentasin sku song "
    "songid track trackid artist artistid album albumid book bookid isbn video videoid news newsid business "
    "businessid anime animeid recipe recipeid beer beerid game gameid app appid content contentid document "
    "documentid docid offer offerid listing listingid goods goodsid joke jokeid aid pid",
    TIMESTAMP: "timestamp ts time datetime date eventtime eventtimestamp eventdate unixtime unixtimestamp "
    "unixreviewtime reviewtime createdat created occurredat when moment tdat orderdate purchasedate timems",
    RELEVANCE: "relevance rel rating ratings stars overall bookrating grade score preference weight strength "
    "plays playcount playtime listeningcount watchratio quantity count label clicked click",
    SCORE: "score prediction predicted pred ypred yhat predictedrating predictedscore rating probability "
    "prob proba p pctr estimate est similarity confidence logit",
    RANK: "rank rnk ranking position pos place",
    MODEL: "model modelname modelid algorithm algo recommender method system approach variant experiment arm",
    FOLD: "fold foldid cvfold",
    LABEL: "label target y ytrue actual clicked click isclick converted conversion purchased bought liked "
    "response outcome rating",
    WEIGHT: "weight sampleweight impressions",
    GROUPS: "groups genres genre categories category tags topics",
    FEATURES: "features attributes",
    VECTOR: "vector embedding embeddings",
}
# Words within longer names, such as user_uuid and event_time_utc.
WORDS: Final[Mapping[str, str]] = {
    USER: "user customer visitor member reviewer",
    ITEM: "item movie product article song track book video content",
    TIMESTAMP: "timestamp time date",
    RELEVANCE: "rating stars relevance",
}
# Types behind names in the headers of RecBole's atomic files: rating:float.
TYPED_NAME: Final = re.compile(r":(token|float)(_seq)?$")
# Text that Spark reads as a timestamp.
WRITTEN_MOMENT: Final = r"^\s*\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}(:\d{2}.*)?)?\s*$"
A_TIME: Final = "moments, text of ISO 8601, or counts of s, ms or us that lie between 1990 and 2099"
# Required and optional columns of each section.
COLUMNS: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    "interactions": ((USER, ITEM, TIMESTAMP), (RELEVANCE,)),
    "recommendations": ((USER, ITEM), (RANK, SCORE, MODEL, FOLD)),
    "truth": ((USER, ITEM), (RELEVANCE, FOLD)),
    "train": ((USER, ITEM), (FOLD,)),
    "items": ((ITEM,), (GROUPS, FEATURES, VECTOR)),
    "users": ((USER,), ()),
    "predictions": ((LABEL, SCORE), (USER, MODEL, WEIGHT, FOLD)),
}


class ValueKind(StrEnum):
    """Kind of the values of a column."""

    INTEGER = "integers"
    NUMBER = "numbers"
    BOOLEAN = "truth values"
    TEXT = "text"
    MOMENT = "moments"
    LIST = "arrays"
    OTHER = "of another type"


ID_KINDS: Final = (ValueKind.INTEGER, ValueKind.TEXT)
NUMBER_KINDS: Final = (ValueKind.INTEGER, ValueKind.NUMBER, ValueKind.BOOLEAN)
# Kinds of numeric timestamps.
EPOCH_KINDS: Final = (ValueKind.INTEGER, ValueKind.NUMBER)
ALLOWED_KINDS: Final[Mapping[str, Sequence[ValueKind]]] = {
    USER: ID_KINDS,
    ITEM: ID_KINDS,
    TIMESTAMP: (ValueKind.MOMENT, ValueKind.INTEGER, ValueKind.NUMBER, ValueKind.TEXT),
    RELEVANCE: NUMBER_KINDS,
    SCORE: NUMBER_KINDS,
    RANK: (ValueKind.INTEGER,),
    MODEL: ID_KINDS,
    FOLD: (ValueKind.INTEGER,),
    LABEL: (*NUMBER_KINDS, ValueKind.TEXT),
    WEIGHT: NUMBER_KINDS,
    GROUPS: (ValueKind.LIST, ValueKind.TEXT),
    FEATURES: (ValueKind.LIST,),
    VECTOR: (ValueKind.LIST,),
}


@dataclass(frozen=True)
class Guess:
    """A guessed column, the reason for it, and the other columns that fit.

    ``is_given`` is True if the user named the column.
    """

    column: str
    reason: str
    others: Sequence[str] = ()
    is_given: bool = False


@dataclass(frozen=True)
class FirstRows:
    """First rows of a section's table, with the columns that the user named.

    ``given`` maps our column names to those of the table. ``unit`` is the given unit of numeric timestamps.
    """

    section: str
    rows: pa.Table
    given: Mapping[str, str]
    unit: str | None = None

    def guesses(self) -> dict[str, Guess]:
        """Return a guess for each of our columns that has one.

        Raises:
            DataError: MISSING_COLUMN for all required columns without a match; AMBIGUOUS_COLUMN.
        """
        needed, optional = COLUMNS[self.section]
        chosen = {ours: Guess(theirs, "given", is_given=True) for ours, theirs in self.given.items()}
        faults = []
        for ours in (*needed, *optional):
            guess = chosen.get(ours) or self.guess(ours, {one.column for one in chosen.values()})
            if guess is not None:
                chosen[ours] = guess
            elif ours in needed:
                faults.append(DataError("MISSING_COLUMN", self.without(ours)))
        DataError.raise_all(faults)
        self.check_case(chosen)
        return {ours: chosen[ours] for ours in (*needed, *optional) if ours in chosen}

    def guess(self, ours: str, chosen: set[str]) -> Guess | None:
        """Return the likeliest unused column for ``ours``, with the others that fit; None if none fits."""
        ranked = sorted(
            (order, number, name, reason)
            for number, name in enumerate(self.rows.column_names)
            if name not in chosen and self.fits(ours, name)
            for order, reason in [likeness(ours, name, self.kind(name))]
            if order is not None
        )
        if not ranked:
            return None
        _, _, column, reason = ranked[0]
        return Guess(column, f"{reason}, {self.kind(column)}", [name for _, _, name, _ in ranked[1:]])

    def fits(self, ours: str, name: str) -> bool:
        """Return True if the values of a column are valid for ``ours``."""
        kind = self.kind(name)
        if ours == ITEM and self.section == "recommendations" and kind is ValueKind.LIST:
            return True
        if ours == TIMESTAMP and kind is ValueKind.TEXT:
            return is_written_moment(self.rows[name])
        if ours == TIMESTAMP and kind in EPOCH_KINDS:
            return (self.unit or unit_of(self.rows[name])) is not None
        return kind in ALLOWED_KINDS[ours]

    def kind(self, name: str) -> ValueKind:
        """Return the kind of the values of a column."""
        return kind_of(column_values(self.rows, name).type)

    def notes(self, chosen: Mapping[str, Guess]) -> list[str]:
        """Return a note if no column is the relevance: every row is then relevant."""
        if RELEVANCE not in COLUMNS[self.section][1] or RELEVANCE in chosen:
            return []
        taken = {guess.column for guess in chosen.values()}
        names = [name for name in self.rows.column_names if name not in taken and self.fits(RELEVANCE, name)]
        numbers = f"; numbers are in {', '.join(names)}" if names else ""
        how = f"--column {self.section}.{RELEVANCE}=NAME names one"
        return [f"no column looks like {RELEVANCE!r}, so every row is relevant{numbers}; {how}"]

    def check_case(self, chosen: Mapping[str, Guess]) -> None:
        """Raise DataError AMBIGUOUS_COLUMN if column names differ by case only."""
        for guess in chosen.values():
            alike = [name for name in self.rows.column_names if name.lower() == guess.column.lower()]
            if len(alike) > 1:
                message = f"{self.section}: columns {', '.join(alike)} differ by case only; rename one"
                raise DataError("AMBIGUOUS_COLUMN", message)

    def without(self, ours: str) -> str:
        """Return the message for a column without a match: existing columns, and how to name one."""
        found = ", ".join(f"{name!r} ({self.kind(name)})" for name in self.rows.column_names)
        allowed = A_TIME if ours == TIMESTAMP else " or ".join(map(str, ALLOWED_KINDS[ours]))
        fix = f"name it: --column {self.section}.{ours}=NAME"
        return f"{self.section}: no column looks like {ours!r}, which is {allowed}; found: {found}. {fix}"


def column_values(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column, or a nested field by its dotted name; a field within an array gives the array.

    Raises:
        KeyError: There is no such column or field.
    """
    outer, *inner = [name] if name in rows.column_names else name.split(".")
    values = rows[outer]
    for field in inner:
        if pa.types.is_struct(values.type):
            if field not in values.type.names:
                raise KeyError(name)
            values = pc.struct_field(values, field)
    return values


def kind_of(kind: pa.DataType) -> ValueKind:
    """Return the kind of the values of an Arrow type; integers are those that Spark reads as integers."""
    types = pa.types
    found = {
        ValueKind.INTEGER: types.is_integer(kind) and not types.is_uint64(kind),
        ValueKind.NUMBER: types.is_floating(kind) or types.is_decimal(kind) or types.is_uint64(kind),
        ValueKind.BOOLEAN: types.is_boolean(kind),
        ValueKind.TEXT: types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind),
        ValueKind.MOMENT: types.is_timestamp(kind) or types.is_date(kind),
        ValueKind.LIST: types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind),
    }
    return next((one for one, holds in found.items() if holds), ValueKind.OTHER)


def likeness(ours: str, name: str, kind: ValueKind) -> tuple[int | None, str]:
    """Return the index of a column's name among likely names, with the reason; None if it is not likely.

    A lower index is likelier; -1 is an exact match.
    """
    plain = re.sub(r"[\W_]", "", TYPED_NAME.sub("", name.casefold()))
    known = SYNONYMS[ours].split()
    if ours == ITEM and kind is ValueKind.LIST:
        known = [*known, *(f"{one}s" for one in known), "recommendations", "recommended", "recs"]
    if name == ours:
        return -1, "has our name"
    if plain in known:
        return known.index(plain), f"a common name for {ours!r}"
    for word in WORDS.get(ours, "").split():
        if word in plain:
            return len(known), f"its name holds {word!r}"
    if ours == TIMESTAMP and kind is ValueKind.MOMENT:
        return len(known) + 1, "by its type"
    return None, ""


def is_written_moment(values: pa.ChunkedArray) -> bool:
    """Return True if all texts of a column are ISO 8601 dates or timestamps, and there is at least one."""
    texts = values.drop_null()
    return len(texts) > 0 and bool(pc.all(pc.match_substring_regex(texts, WRITTEN_MOMENT)).as_py())


def unit_of(values: pa.ChunkedArray) -> str | None:
    """Return the unit that puts all numbers between 1990 and 2099; None if there is none."""
    ends = pc.min_max(values.drop_null()).as_py()
    if ends["min"] is None:
        return None
    first, last = ((year - EPOCH).total_seconds() * 1_000_000 for year in (FIRST_YEAR, LAST_YEAR))
    fitting = (
        unit for unit, size in UNITS.items() if first <= ends["min"] * size <= ends["max"] * size < last
    )
    return next(fitting, None)
