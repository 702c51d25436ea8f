"""Pipeline stages: where users and relevant items are lost."""
