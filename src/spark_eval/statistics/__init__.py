"""Statistics: exact means, standard errors, tests, resampling. No Spark here."""
