"""The data paths, one verb a file, each on one screen: DataFrames in, DataFrames out, no files."""
