"""Peers and floors measured side by side with spark-eval; see README.md."""
