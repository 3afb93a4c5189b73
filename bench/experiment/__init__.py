"""One experiment: train a victim, attack it behind a wall, measure both; knows no files."""
