"""Models compared, user by user: what is asked, sums of pairs, tests, gates. Knows no Spark."""
