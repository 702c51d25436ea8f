"""The tables of a config, read with our columns: no other room knows formats and listings."""
