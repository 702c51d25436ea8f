"""Calibration of offline metrics against the effects of online experiments."""
