"""Data sets, label noise, preprocessing and batches."""
