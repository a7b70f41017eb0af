"""Which labels are wrong, and how many."""
