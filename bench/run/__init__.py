"""Running trials: what is done and what is to do, attempts, engines, progress."""
