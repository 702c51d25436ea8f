"""Report of a run as one HTML page, from published tables and commit records alone; needs no Spark."""
