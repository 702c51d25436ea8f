"""How sure we are: exact means and their standard errors. No Spark here."""
