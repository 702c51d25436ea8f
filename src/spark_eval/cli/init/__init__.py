"""``spark-eval init``: a first config from the tables themselves."""
