"""Results as terminal tables, as JSON, and as one HTML page."""
