"""What the benchmarks share: native tools, pinned processes, the servers that are compared."""
