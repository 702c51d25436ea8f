"""The tables of a config, found and read with our columns: only here are formats and listings known."""
