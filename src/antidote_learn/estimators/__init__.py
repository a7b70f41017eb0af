"""scikit-learn estimators for labels that cannot be trusted."""
