"""Where the workers' code runs."""
