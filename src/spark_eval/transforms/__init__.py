"""Transform DataFrame to DataFrame, one topic a module; ``measure`` starts the Python workers."""
