"""Guess which columns of a table are ours, by their names, their types and a few thousand rows.

A guess is only ever told with its reason; where nothing fits, that is an error, not a guess.
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
from spark_eval.splits.moments import EPOCH, FIRST_YEAR, LAST_YEAR, UNITS

# Names of well-known data sets and libraries, without case and punctuation; the likelier ones first.
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
# Words that a longer name may hold, such as user_uuid and event_time_utc.
WORDS: Final[Mapping[str, str]] = {
    USER: "user customer visitor member reviewer",
    ITEM: "item movie product article song track book video content",
    TIMESTAMP: "timestamp time date",
}
# Text that Spark takes for a moment.
WRITTEN_MOMENT: Final = r"^\s*\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}(:\d{2}.*)?)?\s*$"
A_TIME: Final = "moments, text of ISO 8601, or counts of s, ms or us that lie between 1990 and 2099"
# Columns of each section: those that it needs, and those that it may have.
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
    """What values of a column are, as far as a guess needs to know."""

    INTEGER = "integers"
    NUMBER = "numbers"
    BOOLEAN = "truth values"
    TEXT = "text"
    MOMENT = "moments"
    LIST = "arrays"
    OTHER = "of another type"


ID_KINDS: Final = (ValueKind.INTEGER, ValueKind.TEXT)
NUMBER_KINDS: Final = (ValueKind.INTEGER, ValueKind.NUMBER, ValueKind.BOOLEAN)
# Numbers that may count time.
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
    """A column, why it is taken, and which others would fit as well; ``is_told`` where nothing is guessed."""

    column: str
    reason: str
    others: Sequence[str] = ()
    is_told: bool = False


@dataclass(frozen=True)
class FirstRows:
    """The first rows of a table of a section, and the columns that its user has told (ours: theirs)."""

    section: str
    rows: pa.Table
    told: Mapping[str, str]
    unit: str | None = None

    def guesses(self) -> dict[str, Guess]:
        """Return a guess for each of our columns; raise DataError MISSING_COLUMN for all that lack."""
        needed, optional = COLUMNS[self.section]
        taken = {ours: Guess(theirs, "told", is_told=True) for ours, theirs in self.told.items()}
        faults = []
        for ours in (*needed, *optional):
            guess = taken.get(ours) or self.guess(ours, {one.column for one in taken.values()})
            if guess is not None:
                taken[ours] = guess
            elif ours in needed:
                faults.append(DataError("MISSING_COLUMN", self.without(ours)))
        DataError.raise_all(faults)
        self.check_case(taken)
        return {ours: taken[ours] for ours in (*needed, *optional) if ours in taken}

    def guess(self, ours: str, taken: set[str]) -> Guess | None:
        """Return the likeliest column for ours that is not taken, and which others fit; None without one."""
        ranked = sorted(
            (place, number, name, reason)
            for number, name in enumerate(self.rows.column_names)
            if name not in taken and self.fits(ours, name)
            for place, reason in [likeness(ours, name, self.kind(name))]
            if place is not None
        )
        if not ranked:
            return None
        _, _, column, reason = ranked[0]
        return Guess(column, f"{reason}, {self.kind(column)}", [name for _, _, name, _ in ranked[1:]])

    def fits(self, ours: str, name: str) -> bool:
        """Return whether a column's values can be what ours are."""
        kind = self.kind(name)
        if ours == ITEM and self.section == "recommendations" and kind is ValueKind.LIST:
            return True
        if ours == TIMESTAMP and kind is ValueKind.TEXT:
            return is_written_moment(self.rows[name])
        if ours == TIMESTAMP and kind in EPOCH_KINDS:
            return (self.unit or unit_of(self.rows[name])) is not None
        return kind in ALLOWED_KINDS[ours]

    def kind(self, name: str) -> ValueKind:
        """Return what the values of a column are."""
        return kind_of(column_values(self.rows, name).type)

    def check_case(self, taken: Mapping[str, Guess]) -> None:
        """Raise DataError AMBIGUOUS_COLUMN for a column that is there twice but for case."""
        for guess in taken.values():
            alike = [name for name in self.rows.column_names if name.lower() == guess.column.lower()]
            if len(alike) > 1:
                message = f"{self.section}: columns {', '.join(alike)} differ by case only; rename one"
                raise DataError("AMBIGUOUS_COLUMN", message)

    def without(self, ours: str) -> str:
        """Return that no column fits, which ones there are, and how to tell."""
        found = ", ".join(f"{name!r} ({self.kind(name)})" for name in self.rows.column_names)
        allowed = A_TIME if ours == TIMESTAMP else " or ".join(map(str, ALLOWED_KINDS[ours]))
        mend = f"name it: --column {self.section}.{ours}=NAME"
        return f"{self.section}: no column looks like {ours!r}, which is {allowed}; found: {found}. {mend}"


def column_values(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column, or a field of one as Spark names it by dots; of an array's fields the array.

    Raises KeyError where there is none.
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
    """Return what values of an Arrow type are; integers are those that Spark reads as such."""
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
    """Return how far down the list of likely names a column's stands, with the reason; None if nowhere."""
    plain, known = re.sub(r"[\W_]", "", name.casefold()), SYNONYMS[ours].split()
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
    """Return whether all text of a column is a date or a moment as ISO 8601 writes it."""
    texts = values.drop_null()
    return len(texts) > 0 and bool(pc.all(pc.match_substring_regex(texts, WRITTEN_MOMENT)).as_py())


def unit_of(values: pa.ChunkedArray) -> str | None:
    """Return the unit in which all counts lie between 1990 and 2099; None where there is none."""
    ends = pc.min_max(values.drop_null()).as_py()
    if ends["min"] is None:
        return None
    first, last = ((year - EPOCH).total_seconds() * 1_000_000 for year in (FIRST_YEAR, LAST_YEAR))
    fitting = (
        unit for unit, size in UNITS.items() if first <= ends["min"] * size <= ends["max"] * size < last
    )
    return next(fitting, None)
