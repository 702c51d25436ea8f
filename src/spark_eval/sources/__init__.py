"""Read the tables of a config with our columns; only this package knows formats and listings."""
