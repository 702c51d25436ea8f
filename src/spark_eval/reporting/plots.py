"""Charts of a report one chapter at a time, in a frame of a notebook or in a file of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Final

from spark_eval.errors import ConfigError
from spark_eval.reporting.chapters import Chapter, Form
from spark_eval.reporting.facts import RunFacts
from spark_eval.reporting.page import CHAPTERS, page_of
from spark_eval.runtime.local_files import write_file

# Views that are no charts: a result has its tables itself.
TABLES: Final = (Form.TABLE, Form.BOARD)
# Where a notebook does not let a frame grow to what is in it.
HEIGHT: Final = "480px"


@dataclass(frozen=True, repr=False)
class Plot:
    """Charts that show themselves in a notebook; ``page`` is the HTML, which needs nothing else.

    Scripts and styles stay in their frame, and reach nothing outside it but its height.
    """

    chart: str
    title: str
    page: str

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {HEIGHT}; border: 0"
        return f'<iframe srcdoc="{escape(self.page)}" title="{escape(self.title)}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        return f"Plot of {self.chart}: {self.title}; write(path) makes an HTML file of it"

    def write(self, path: str | Path) -> None:
        """Write the charts to an HTML file; raise ConfigError INVALID_PATH where none can be."""
        write_file(Path(path), self.page)


def plot_of(facts: RunFacts, chart: str | None = None, metrics: Sequence[str] = ()) -> Plot:
    """Return the charts of a chapter, by default of the first that has any; of ``metrics`` alone, if given.

    Raises ConfigError UNKNOWN_CHART, which lists the chapters that have charts of these facts, and
    METRIC_NOT_MEASURED.
    """
    facts = facts.of_metrics(metrics, "plot") if metrics else facts
    for name in CHAPTERS if chart is None else [chart]:
        if (chapter := charts_of(facts, name)) is not None:
            title = ": ".join([chapter.title, *([", ".join(metrics)] if metrics else [])])
            return Plot(name, title, page_of(facts, {name: replace(chapter, title=title)}, title))
    known = ", ".join(name for name in CHAPTERS if charts_of(facts, name) is not None)
    raise ConfigError("UNKNOWN_CHART", f"no chart {chart or ''!r} of this; there are: {known or 'none'}")


def charts_of(facts: RunFacts, name: str) -> Chapter | None:
    """Return a chapter with its charts alone; None where it has none of these facts."""
    chapter = CHAPTERS[name](facts) if name in CHAPTERS else None
    if chapter is None:
        return None
    views = [view for view in chapter.views if view.kind not in TABLES]
    return replace(chapter, views=views, texts={}) if views else None
