"""Metrics and funnel of pipeline stages: the stage that loses users or relevant items."""
