"""The config file: read strictly, checked before Spark starts."""
