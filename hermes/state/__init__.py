"""Volatile state that all workers share: sessions, breakers, rests of keys, strikes."""
