"""Get an answer: endpoints in order, keys in turn, breakers, deadlines, and the relay of what comes back."""
