"""Metrics beyond accuracy: lists compared with the catalogue and the users' histories."""
