"""The hash that divides users: the reference's own values, whatever the length of an id."""

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.arrow.xxhash64 import id_hashes, text_hashes

# Of the reference implementation, with seed 0: bytes, half a word, stripes, words and what is left of them.
REFERENCE = {
    "": 0xEF46DB3751D8E999,
    "a": 0xD24EC4F1A98C6E5B,
    "abc": 0x44BC2CF5AD770999,
    "asdf": 0x415872F599CEA71E,
    "Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
    "Call me Ishmael. Some years ago--never mind how long precisely-": 0x02A2E85470D6FD96,
}


@pytest.mark.parametrize(("text", "expected"), REFERENCE.items())
def test_the_reference_gives_the_same(text: str, expected: int) -> None:
    assert text_hashes(pa.array([text]), np.uint64(0)).tolist() == [expected]


def test_a_hash_depends_on_the_id_and_the_seed_alone() -> None:
    users = pa.array(["b", "a", "ccccccccc", "a", "ä", ""])
    hashes = id_hashes(users, np.int64(7))
    assert hashes[1] == hashes[3]
    assert len(set(hashes.tolist())) == 5
    assert id_hashes(users.slice(2, 2), np.int64(7)).tolist() == hashes[2:4].tolist()
    assert not set(id_hashes(users, np.int64(8)).tolist()) & set(hashes.tolist())


def test_integers_draw_as_their_text_does() -> None:
    numbers = [0, -1, 7, 2**63 - 1, -(2**63)]
    texts = id_hashes(pa.array([str(number) for number in numbers]), np.int64(3))
    assert id_hashes(pa.array(numbers), np.int64(3)).tolist() == texts.tolist()


def test_the_seed_comes_before_the_id() -> None:
    """As Spark's ``xxhash64(7L, 'a')`` has it."""
    assert id_hashes(pa.array(["a"]), np.int64(7)).view("i8").tolist() == [2701516948731497016]
    assert (
        id_hashes(pa.array(["a"]), np.int32(7)).tolist() != id_hashes(pa.array(["a"]), np.int64(7)).tolist()
    )
