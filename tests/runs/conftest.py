"""The program on a log of a few rows, as the tests of the command line have it."""

from tests.cli.conftest import desk, new_desk, program, published, split_desk, split_once

__all__ = ["desk", "new_desk", "program", "published", "split_desk", "split_once"]
