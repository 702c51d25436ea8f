"""Display of any result: tables, leaderboard, sentences, charts, report, MLflow."""
