"""An empty module in the place of PyTorch, which LensKit imports for its models.

LensKit's metrics compute without it, and its wheels bring 5 GB of CUDA along. ``asked`` is what was asked of
the stand-in: nothing, as long as that holds.
"""

import sys
from typing import Any
from unittest.mock import MagicMock


class Tensor:
    """The type that no list here is of."""


torch = MagicMock(name="torch")
torch.Tensor = Tensor
torch.is_tensor = lambda _: False
torch.jit.ignore = lambda function: function
for module in ("torch", "torch.multiprocessing", "torch.multiprocessing.reductions"):
    sys.modules[module] = torch


def asked() -> list[Any]:
    """Calls of anything in PyTorch since it was imported."""
    return list(torch.mock_calls)
