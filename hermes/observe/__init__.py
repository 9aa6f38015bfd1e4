"""What happened: traces, metrics and logs, none of which ever holds a secret."""
