"""Runners: operations that carry the workers' code, messages and objects over Spark."""
