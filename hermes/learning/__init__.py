"""How routing improves: fitting the surrogate, in a process of its own. The only place that imports scikit-learn."""
