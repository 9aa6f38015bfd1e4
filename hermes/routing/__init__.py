"""Who should answer? Keywords, sessions, the surrogate and the teacher, and the router that asks them in order."""
