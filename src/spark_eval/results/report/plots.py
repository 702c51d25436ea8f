"""Charts of one chapter of a report, in a frame of a notebook or in an HTML file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Final

from spark_eval.errors import ConfigError
from spark_eval.results.report.chapters import Chapter, Form
from spark_eval.results.report.data import RunFacts
from spark_eval.results.report.page import CHAPTERS, page_of
from spark_eval.runtime.local_files import check_file, write_file

# Views that are not charts; a result has its tables as frames.
TABLES: Final = (Form.TABLE, Form.BOARD)
# Height of the frame if the notebook does not let it grow with its content.
HEIGHT: Final = "480px"


@dataclass(frozen=True, repr=False)
class Plot:
    """Charts of a chapter, which notebooks display in a frame.

    ``chart`` is the name of the chapter, ``page`` the self-contained HTML. Scripts and styles have no effect
    outside the frame, except on its height.
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
        """Write the charts to an HTML file.

        Args:
            path: Path of the file.

        Raises:
            ConfigError: INVALID_PATH if no file can be there.
            SetupError: NO_PERMISSION if no file can be made there.
        """
        check_file(Path(path))
        write_file(Path(path), self.page)


def plot_of(facts: RunFacts, chart: str | None = None, metrics: Sequence[str] = ()) -> Plot:
    """Return the charts of a chapter.

    Args:
        facts: Data of the run.
        chart: Name of the chapter, by default the first that has charts.
        metrics: The only metrics to show (``ndcg``, ``ndcg@10``), by default all.

    Returns:
        A ``Plot``.

    Raises:
        ConfigError: UNKNOWN_CHART if the chapter has no charts; the message lists the chapters that have
            some. METRIC_NOT_MEASURED if a metric was not measured.
    """
    facts = facts.of_metrics(metrics, "plot") if metrics else facts
    for name in CHAPTERS if chart is None else [chart]:
        if (chapter := charts_of(facts, name)) is not None:
            title = ": ".join([chapter.title, *([", ".join(metrics)] if metrics else [])])
            return Plot(name, title, page_of(facts, {name: replace(chapter, title=title)}, title))
    drawn = ", ".join(name for name in CHAPTERS if charts_of(facts, name) is not None)
    raise ConfigError("UNKNOWN_CHART", f"no chart {chart or ''!r} of this; there are: {drawn or 'none'}")


def charts_of(facts: RunFacts, name: str) -> Chapter | None:
    """Return a chapter with its charts alone; None if it has none."""
    chapter = CHAPTERS[name](facts) if name in CHAPTERS else None
    if chapter is None:
        return None
    views = [view for view in chapter.views if view.kind not in TABLES]
    return replace(chapter, views=views, texts={}) if views else None
