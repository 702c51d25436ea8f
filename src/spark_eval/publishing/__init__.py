"""Whole tables or none: written aside, checked, renamed; and how what is published is read."""
