"""Items in the executors: their attributes, and how often they are recommended."""
