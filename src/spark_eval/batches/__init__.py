"""What happens inside the workers and to summaries on the driver: numpy and Arrow, no Spark."""
