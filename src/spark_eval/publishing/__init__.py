"""Publish whole tables or none: stage, check, rename; and read published tables."""
