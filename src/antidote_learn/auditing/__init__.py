"""An audit finds which labels of a data set are wrong, and how many."""
