"""What is held out: rules without Spark, and Spark files that find cuts, label rows, look for leaks."""
