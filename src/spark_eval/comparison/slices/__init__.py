"""Slices of a comparison: their sums, tests, roles and gates."""
