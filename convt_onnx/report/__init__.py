"""Results as JSON and as terminal tables."""
