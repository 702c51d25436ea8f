"""What workers know of items, beside who finds them relevant, and how often they recommend each."""
