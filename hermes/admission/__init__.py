"""May this run? Who calls, and with which rights."""
