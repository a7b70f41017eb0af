"""Settings as data, each with its source."""
