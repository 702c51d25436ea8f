"""Where along the stages of a pipeline users and relevant items are lost."""
