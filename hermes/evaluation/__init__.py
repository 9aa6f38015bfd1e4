"""Is the target better than the pinned model?"""
