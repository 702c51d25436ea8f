"""The option that writes what is frozen anew."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-frozen", action="store_true", help="write tests/freeze/frozen/ anew")
