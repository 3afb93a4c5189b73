"""The harness: suites to trials, trials to records, records to tables and curves."""
