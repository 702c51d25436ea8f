"""Published runs over time: days merged into windows, series of values, and alarms."""
