"""Code that runs on Spark's workers for days on a store, and in this process for local ones."""
