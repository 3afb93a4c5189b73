"""Suites: TOML becomes typed, validated trials, each named by the hash of its configuration."""
