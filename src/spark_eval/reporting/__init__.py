"""A run as one HTML page, from what it published alone: no Spark, no request, no number that no table has."""
