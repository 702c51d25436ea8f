"""What `make docs` asks of MkDocs: pages where the tree has them, a nav of patterns, names."""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

from griffe import Extension, Function
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).parents[2]
# Whatever pages link to is on the site, at the same path, so that a link is right in both places.
PUBLISHED = (
    *(
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "LICENSE",
        "docs/**/*.md",
        "docs/**/*.png",
    ),
    *("docs/site/*.js", "docs/site/*.css", "examples/*", "benchmarks/README.md", "conf/*.yaml", "dags/*.py"),
)
# Of what the search finds, these pages come last: how and why, after what readers look for.
FOUND_LAST = ("docs/decisions/", "CHANGELOG.md", "CONTRIBUTING.md", "docs/testing.md", "docs/reliability.md")
LOW_BOOST = 1e-6
PUBLIC_MODULES = ("spark_eval", "spark_eval.functions", "spark_eval.demo")
API_PAGE = "docs/api.md"


def on_files(files: Files, config: Any) -> Files:
    """Put the files of the tree where those of ``docs_dir`` were, and name them in the nav."""
    paths = sorted({path for pattern in PUBLISHED for path in REPOSITORY.glob(pattern) if path.is_file()})
    names = [str(path.relative_to(REPOSITORY)) for path in paths]
    published = [File(name, str(REPOSITORY), config.site_dir, config.use_directory_urls) for name in names]
    of_theme = [
        file for file in files if not file.src_uri.endswith(".md") and file.src_dir != config.docs_dir
    ]
    config.nav = chosen(config.nav, [name for name in names if name.endswith(".md")])
    return Files([*of_theme, *published])


def chosen(nav: list[dict[str, list[str]]], pages: list[str]) -> list[dict[str, list[str]]]:
    """Return the groups with pages for patterns; a page is where it is named, else where one fits."""
    named = {entry for group in nav for entries in group.values() for entry in entries}
    left = [page for page in pages if page not in named]
    groups = []
    for title, entries in (item for group in nav for item in group.items()):
        found = []
        for entry in entries:
            fitting = [page for page in left if Path(page).match(entry)] if "*" in entry else [entry]
            left = [page for page in left if page not in fitting]
            found += fitting
        groups.append({title: found})
    return groups


def on_page_markdown(_markdown: str, page: Any, **_: Any) -> None:
    """Let the search put pages of decisions and of history after all others."""
    if page.file.src_uri.startswith(FOUND_LAST):
        page.meta["search"] = {"boost": LOW_BOOST}


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Raise PluginError for a public name that the API page lacks, or that has no docstring."""
    if page.file.src_uri == API_PAGE:
        wrong = [name for name, value in public_names() if f'id="{name}"' not in html or not told(value)]
        if wrong:
            raise PluginError(f"{API_PAGE}: not there, or without a docstring: {', '.join(wrong)}")
    return html


def public_names() -> list[tuple[str, Any]]:
    """Return the names of ``__all__`` of the public modules, with what they stand for."""
    modules = [import_module(name) for name in PUBLIC_MODULES]
    return [
        (f"{module.__name__}.{name}", getattr(module, name))
        for module in modules
        for name in module.__all__
        if not name.startswith("__")
    ]


def told(value: Any) -> bool:
    """Return whether a name has a docstring of its own."""
    return bool(inspect.getdoc(value))


class Summaries(Extension):
    """Functions of metrics with the first sentence of their kernel, whose examples are in conventions.md."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Leave out what follows the first paragraph, where it has examples."""
        if func.docstring and ">>> " in func.docstring.value:
            func.docstring.value = func.docstring.value.partition("\n\n")[0]
