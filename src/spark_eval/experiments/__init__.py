"""Online experiments: plan, workers' code, inference, decisions and result."""
