"""Submissions: whether a packed run or audit holds what it says, and may stand beside others."""
