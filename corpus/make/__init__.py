"""The corpus's workshop: recipes of jobs that fail, run for real, and what remains of them made a labelled case."""
