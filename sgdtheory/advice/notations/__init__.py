"""Batch ramps as trainers write them, one file a trainer."""
