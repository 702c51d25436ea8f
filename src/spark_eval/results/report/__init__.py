"""Report of a run as one HTML page, from tables and commit records alone; no Spark here."""
