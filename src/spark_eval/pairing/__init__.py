"""Pairs of models in the workers: users side by side, exact sums, ranks and draws. numpy, pyarrow."""
