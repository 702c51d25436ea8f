"""Base classes of results: display, charts, export to pandas, writing, and logging to MLflow."""
