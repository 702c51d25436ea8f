"""Sections of the config that describe inputs; strict YAML, checked before Spark starts."""
