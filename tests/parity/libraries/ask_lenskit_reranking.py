"""LensKit: rank-biased overlap of pairs of lists, each with a depth. Pairs come as JSON on stdin."""

import json
import sys
from importlib.metadata import version

import stand_in_for_torch  # before LensKit, which imports torch
from lenskit.data import ItemList
from lenskit.metrics.reranking import rank_biased_overlap

if __name__ == "__main__":
    values = [
        float(rank_biased_overlap(ItemList(before, ordered=True), ItemList(after, ordered=True), n=depth))
        for before, after, depth in json.load(sys.stdin)
    ]
    assert not stand_in_for_torch.asked()
    json.dump({"version": version("lenskit"), "values": values}, sys.stdout)
