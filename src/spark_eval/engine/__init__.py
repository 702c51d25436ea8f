"""What runs inside the workers: rows become messages, messages lists, lists metrics. numpy, pyarrow."""
