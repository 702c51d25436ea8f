"""Evaluation of lists: ``evaluate``, its plan, inputs, workers' code, sums and result."""
