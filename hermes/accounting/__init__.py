"""What did it cost: tokens, prices, and the spool that keeps every row until the database has it."""
