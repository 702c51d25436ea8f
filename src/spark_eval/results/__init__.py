"""How any result speaks: tables, leaderboard, sentences, charts, report, MLflow."""
