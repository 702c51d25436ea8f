"""Runtime of the program: Spark sessions, events, signals, streams, named errors."""
