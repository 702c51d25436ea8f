"""What results of verbs have in common: they show themselves, are drawn, written and logged."""
