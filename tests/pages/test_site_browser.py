"""The site of `make docs` in a real browser, from the disk: it asks nobody, and searches."""

from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from tests.browsers import MARKS, browsing, log_of, requests_of
from tests.pages.blocks import PAGES, REPOSITORY

SITE = REPOSITORY / "site"
pytestmark = [
    *MARKS,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site here: make docs"),
]


@pytest.fixture(scope="module")
def chrome() -> Iterator[webdriver.Chrome]:
    with browsing() as driver:
        yield driver


def place_of(page: str) -> str:
    """Where a page stands on the site."""
    return page.replace("README.md", "index.md").replace(".md", ".html")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_there_and_loads_nothing(chrome: webdriver.Chrome, page: str) -> None:
    for kind in ("browser", "performance"):
        log_of(chrome, kind)
    chrome.get((SITE / place_of(page)).as_uri())
    heading = (REPOSITORY / page).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    assert chrome.find_element(By.TAG_NAME, "h1").text.rstrip("¶") == heading
    pictures = "return [...document.images].every((one) => one.complete && one.naturalWidth > 0)"
    assert chrome.execute_script(pictures)
    assert log_of(chrome, "browser") == []
    asked = {url for url in requests_of(chrome) if not url.startswith("data:")}
    assert asked
    assert {url for url in asked if not url.startswith(SITE.as_uri())} == set()


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("mean reciprocal rank", "docs/conventions.md"),
        ("cold start", "docs/splits.md"),
        ("bootstrap", "docs/comparison.md"),
        ("install", "docs/install.md"),
    ],
)
def test_its_search_finds_first_what_a_reader_means(chrome: webdriver.Chrome, query: str, page: str) -> None:
    chrome.get((SITE / "index.html").as_uri())
    box = chrome.find_element(By.CSS_SELECTOR, "input.md-search__input")
    box.click()
    box.send_keys(query)
    found = (By.CSS_SELECTOR, ".md-search-result__link")
    WebDriverWait(chrome, 60).until(lambda driver: driver.find_elements(*found))
    links = [str(one.get_attribute("href")) for one in chrome.find_elements(*found)]
    pages = list(dict.fromkeys(link.partition("?")[0].partition("#")[0] for link in links))
    assert pages[0] == (SITE / place_of(page)).as_uri()
    late = [place for place in pages if "/decisions/" in place or "CHANGELOG" in place]
    assert pages[len(pages) - len(late) :] == late


def test_its_search_finds(chrome: webdriver.Chrome) -> None:
    chrome.get((SITE / "index.html").as_uri())
    box = chrome.find_element(By.CSS_SELECTOR, "input.md-search__input")
    box.click()
    box.send_keys("CANNOT_SWAP")
    found = (By.CSS_SELECTOR, ".md-search-result__item h1")
    WebDriverWait(chrome, 60).until(lambda driver: driver.find_elements(*found))
    titles = [one.get_property("textContent") for one in chrome.find_elements(*found)]
    assert {"Operations", "Exit codes and errors"} <= set(titles)
