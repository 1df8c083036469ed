"""What a form is expected to take where nothing is timed."""
