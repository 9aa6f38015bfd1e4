"""What should it know? The operator's documents, cut into passages that are found by what they mean."""
