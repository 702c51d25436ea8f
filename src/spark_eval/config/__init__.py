"""Config file: parsed strictly, validated before Spark starts."""
