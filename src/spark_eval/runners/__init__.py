"""Runners: operations that carry the workers' code, messages and objects, over Spark or in this process."""
