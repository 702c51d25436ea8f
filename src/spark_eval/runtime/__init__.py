"""What a program on Spark needs whatever it computes: a session, events, signals, errors in our words."""
