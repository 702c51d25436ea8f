"""Logarithms against decimals of fifty digits, and bits that no processor may change."""

from contextlib import AbstractContextManager
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest

from spark_eval.statistics.exact import Floats
from spark_eval.statistics.logarithm import log, log1p

RANDOM = np.random.default_rng(0)
NEAR_1 = 1 + RANDOM.normal(0, 1e-3, 500) * 10.0 ** RANDOM.uniform(-12, 0, 500)
VALUES = np.concatenate(
    [
        RANDOM.random(5000),
        10 ** RANDOM.uniform(-300, 300, 1000),
        NEAR_1,
        [np.nextafter(1, 0), np.nextafter(1, 2), 1.0, 0.5, 2.0, 1e-15, 1 - 1e-15],
    ]
)
SHARES = np.concatenate(
    [RANDOM.random(1000), 10 ** RANDOM.uniform(-18, -0.001, 1000), [0.0, 1e-15, 1 - 1e-15]]
)


def fifty_digits() -> AbstractContextManager[Context]:
    """Decimals of fifty digits."""
    return localcontext(Context(prec=50))


def errors(found: Floats, expected: list[Decimal]) -> list[float]:
    """Distances from the true values, in units of the last place."""
    units = np.spacing(np.abs(found)).tolist()
    pairs = zip(found.tolist(), expected, units, strict=True)
    return [float(abs(Decimal(one) - true) / Decimal(unit)) for one, true, unit in pairs]


def test_logarithms_are_within_one_unit_of_the_last_place() -> None:
    with fifty_digits():
        assert max(errors(log(VALUES), [Decimal(one).ln() for one in VALUES.tolist()])) < 1


def test_logarithms_of_complements_keep_their_digits() -> None:
    with fifty_digits():
        assert max(errors(log1p(-SHARES), [(1 - Decimal(one)).ln() for one in SHARES.tolist()])) < 3


@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 4097, 9000])
def test_logarithms_of_many_values_are_those_of_each(n: int) -> None:
    values = RANDOM.random(n) + 1e-9
    assert log(values).tolist() == [float(log(np.array([one]))[0]) for one in values.tolist()]


def test_bits_are_the_same_on_every_processor() -> None:
    thirds = np.arange(1, 8) / 3
    assert [one.hex() for one in log(thirds).tolist()] == [
        *("-0x1.193ea7aad030bp+0", "-0x1.9f323ecbf984dp-2", "0x0.0p+0", "0x1.269621134db92p-2"),
        *("0x1.058aefa811452p-1", "0x1.62e42fefa39efp-1", "0x1.b1d10670aae9ap-1"),
    ]
    assert [one.hex() for one in log1p(-thirds[:2]).tolist()] == [
        *("-0x1.9f323ecbf984cp-2", "-0x1.193ea7aad030ap+0"),
    ]
